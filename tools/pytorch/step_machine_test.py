"""What each event means in each state of a step. No PyTorch is needed."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from gradsync.step_machine import (
    DDP_AGAIN,
    JOINED,
    NOT_CALLED,
    NOT_SYNCHRONISED,
    SEVERAL_PASSES,
    SHARDED_AGAIN,
    SPARSE,
    TABLES,
    Action,
    Event,
    Refusal,
    State,
    StepMachine,
    Target,
    Transition,
)

BEFORE_UPDATE = {State.BETWEEN, State.EVALUATED, State.OPEN, State.PARTLY, State.SYNCED}


def run(target, *events):
    """The actions of these events, but those that do nothing; the last may be a refusal."""
    machine = StepMachine(target)
    outcomes = [machine.on(event) for event in events]
    return [outcome for outcome in outcomes if outcome is not Action.NOTHING], machine.state


class WholeStepsTest(unittest.TestCase):
    """Steps as scripts have them, from their first event to their last."""

    def check(self, target, events, actions, state=State.BETWEEN):
        self.assertEqual(run(target, *events), (actions, state))

    def test_a_step_of_one_pass(self):
        for target in Target:
            self.check(
                target,
                [Event.FORWARD, Event.SYNCHRONISED, Event.STEP, Event.ALL_STEPPED],
                [Action.BEGIN, Action.SYNCHRONISE, Action.UPDATE, Action.NOTE_UPDATED_AND_END],
            )

    def test_a_step_of_several_passes_begins_with_the_first_forward(self):
        passes = 2 * [Event.FORWARD, Event.ACCUMULATED] + [Event.FORWARD, Event.SYNCHRONISED]
        for target in Target:
            self.check(
                target,
                [*passes, Event.STEP, Event.ALL_STEPPED],
                [
                    Action.BEGIN,
                    Action.COUNT_PASS,
                    Action.COUNT_PASS,
                    Action.SYNCHRONISE,
                    Action.UPDATE,
                    Action.NOTE_UPDATED_AND_END,
                ],
            )

    def test_two_optimizers_make_one_update(self):
        self.check(
            Target.DDP,
            [
                Event.FORWARD,
                Event.SYNCHRONISED,
                Event.STEP,
                Event.STEPPED,
                Event.MAY_STEP,
                Event.ALL_STEPPED,
            ],
            [
                Action.BEGIN,
                Action.SYNCHRONISE,
                Action.UPDATE,
                Action.NOTE_UPDATED,
                Action.NOTE_UPDATED_AND_END,
            ],
        )

    def test_the_first_step_ends_with_the_next_forward_because_its_optimizers_are_not_known(self):
        self.check(
            Target.DDP,
            [Event.FORWARD, Event.SYNCHRONISED, Event.STEP, Event.STEPPED, Event.FORWARD],
            [
                Action.BEGIN,
                Action.SYNCHRONISE,
                Action.UPDATE,
                Action.NOTE_UPDATED,
                Action.END_AND_BEGIN,
            ],
            State.OPEN,
        )

    def test_a_closure_makes_a_step_of_each_call(self):
        call = [Event.FORWARD, Event.SYNCHRONISED, Event.MAY_STEP]
        self.check(
            Target.DDP,
            [Event.MAY_STEP, *call, *call, Event.ALL_STEPPED],
            [
                Action.BEGIN,
                Action.SYNCHRONISE,
                Action.UPDATE,
                Action.END_AND_BEGIN,
                Action.SYNCHRONISE,
                Action.UPDATE,
                Action.NOTE_UPDATED_AND_END,
            ],
        )

    def test_a_model_that_is_updated_unseen(self):
        first = [Event.FORWARD, Event.ACCUMULATED, Event.FORWARD, Event.CHANGED]
        later = [Event.UNSEEN_UPDATE, Event.FORWARD, Event.SYNCHRONISED]
        self.check(
            Target.PLAIN,
            [*first, *later, *later],
            [
                Action.BEGIN,
                Action.COUNT_PASS,
                Action.NOTE_UNSEEN_UPDATES,
                Action.UPDATE_UNSEEN,
                Action.END_AND_BEGIN,
                Action.SYNCHRONISE,
                Action.UPDATE_UNSEEN,
                Action.END_AND_BEGIN,
                Action.SYNCHRONISE,
            ],
            State.SYNCED,
        )

    def test_a_script_that_trains_in_eval_mode_skips_one_step(self):
        skipped = [Event.EVAL_FORWARD, Event.SYNCHRONISED, Event.STEP, Event.STEPPED]
        self.check(
            Target.DDP,
            [*skipped, Event.FORWARD],
            [Action.BEGIN_IN_EVAL_MODE, Action.BEGIN],
            State.OPEN,
        )

    def test_an_evaluation_between_steps_is_nothing(self):
        whole = [Event.FORWARD, Event.SYNCHRONISED, Event.STEP, Event.ALL_STEPPED]
        actions = run(Target.DDP, *whole)[0]
        evaluation = [Event.EVAL_FORWARD, Event.EVAL_FORWARD]
        self.check(Target.DDP, [*whole, *evaluation, *whole], 2 * actions)
        # A gradient after another update is none of the evaluation.
        outcomes, _ = run(Target.DDP, *evaluation, Event.STEPPED, Event.SYNCHRONISED)
        self.assertEqual(outcomes, [NOT_CALLED])

    def test_a_step_that_a_scaler_skips(self):
        for target, last in (
            (Target.DDP, Event.SYNCHRONISED),
            (Target.PLAIN, Event.ACCUMULATED),
        ):
            outcomes, state = run(target, Event.FORWARD, last, Event.SCALED)
            self.assertEqual((outcomes[-1], state), (Action.ABANDON, State.BETWEEN))
        # Where it has stepped there is nothing to skip.
        whole = [Event.FORWARD, Event.SYNCHRONISED, Event.STEP, Event.STEPPED]
        self.assertEqual(run(Target.DDP, *whole, Event.SCALED), run(Target.DDP, *whole))

    def test_a_step_of_too_few_passes(self):
        """It ends, and counts for nothing, unless DDP was to synchronise it."""
        begin = [Event.FORWARD, Event.ACCUMULATED]
        for target in (Target.PLAIN, Target.SHARDED):
            for event in (Event.STEP, Event.MAY_STEP):
                self.check(
                    target,
                    [*begin, event],
                    [Action.BEGIN, Action.COUNT_PASS, Action.UPDATE],
                    State.UPDATED,
                )
        self.assertEqual(run(Target.DDP, *begin, Event.STEP)[0][-1], NOT_SYNCHRONISED)

    def test_a_step_of_too_many_passes(self):
        events = [Event.FORWARD, Event.SYNCHRONISED, Event.FORWARD, Event.ACCUMULATED]
        self.check(
            Target.PLAIN,
            events,
            [Action.BEGIN, Action.SYNCHRONISE, Action.COUNT_PASS],
            State.SYNCED,
        )
        for last in (Event.ACCUMULATED, Event.SYNCHRONISED):
            events[-1] = last
            self.assertEqual(run(Target.DDP, *events)[0][-1], DDP_AGAIN)
            self.assertEqual(run(Target.SHARDED, *events)[0][-1], SHARDED_AGAIN)

    def test_an_update_of_another_model_between_steps(self):
        self.check(Target.PLAIN, [Event.NOTHING_CAME], [Action.FORGET_UPDATE])
        self.check(
            Target.PLAIN,
            [Event.EVAL_FORWARD, Event.NOTHING_CAME],
            [Action.FORGET_UPDATE],
            State.EVALUATED,
        )


class TablesTest(unittest.TestCase):
    """All of the tables, by what is common to rows."""

    def states_of(self, target, event, outcome):
        return {state for state in State if TABLES[target][state, event] == outcome}

    def test_every_event_has_a_rule_in_every_state(self):
        for target in Target:
            expected = {(state, event) for state in State for event in Event}
            self.assertEqual(set(TABLES[target]), expected)

    def test_refusals_and_where_they_are(self):
        opening = {State.BETWEEN, State.EVALUATED, State.OPEN}
        for target in Target:
            again = {Target.DDP: DDP_AGAIN, Target.SHARDED: SHARDED_AGAIN}.get(target)
            partly = {State.PARTLY} if target is Target.DDP else set()
            expected = {
                (Event.JOINED_FORWARD, JOINED): set(State),
                (Event.SPARSE_CAME, SPARSE): BEFORE_UPDATE,
                (Event.CHANGED_AFTER_PASSES, SEVERAL_PASSES): BEFORE_UPDATE,
                (Event.ACCUMULATED, NOT_CALLED): {State.BETWEEN},
                (Event.SYNCHRONISED, NOT_CALLED): {State.BETWEEN},
                (Event.STEP, NOT_SYNCHRONISED): opening | partly,
            }
            if again:
                expected[Event.ACCUMULATED, again] = {State.SYNCED}
                expected[Event.SYNCHRONISED, again] = {State.SYNCED}
            found = {}
            for (state, event), rule in TABLES[target].items():
                if isinstance(rule, Refusal):
                    found.setdefault((event, rule), set()).add(state)
            self.assertEqual(found, expected)

    def test_what_happens_within_an_update_or_a_skipped_step_is_nothing(self):
        for target in Target:
            for state in (State.UPDATED, State.SKIPPED):
                for event in (
                    Event.EVAL_FORWARD,
                    Event.NOTHING_CAME,
                    Event.SPARSE_CAME,
                    Event.ACCUMULATED,
                    Event.SYNCHRONISED,
                    Event.CHANGED,
                    Event.CHANGED_AFTER_PASSES,
                    Event.UNSEEN_UPDATE,
                    Event.STEP,
                    Event.MAY_STEP,
                    Event.SCALED,
                ):
                    rule = TABLES[target][state, event]
                    self.assertEqual(rule, Transition(state), (target, state, event))

    def test_forwards_within_a_step_are_nothing(self):
        for target in Target:
            for event in (Event.FORWARD, Event.EVAL_FORWARD):
                for state in (State.OPEN, State.PARTLY, State.SYNCED, State.SKIPPED):
                    self.assertEqual(TABLES[target][state, event], Transition(state))

    def test_an_optimizer_that_has_nothing_to_do_changes_nothing(self):
        for target in Target:
            for state in (State.BETWEEN, State.EVALUATED, State.OPEN):
                self.assertEqual(TABLES[target][state, Event.MAY_STEP], Transition(state))
            for state in (State.BETWEEN, State.OPEN, State.PARTLY, State.SYNCED):
                for event in (Event.STEPPED, Event.ALL_STEPPED):
                    self.assertEqual(TABLES[target][state, event], Transition(state))
        partly = TABLES[Target.DDP][State.PARTLY, Event.MAY_STEP]
        self.assertEqual(partly, Transition(State.PARTLY))

    def test_unseen_updates(self):
        noted = Transition(State.SYNCED, Action.NOTE_UNSEEN_UPDATES)
        updated = Transition(State.UPDATED, Action.UPDATE_UNSEEN)
        for target in Target:
            self.assertEqual(self.states_of(target, Event.CHANGED, noted), BEFORE_UPDATE)
            self.assertEqual(self.states_of(target, Event.UNSEEN_UPDATE, updated), {State.SYNCED})
            for state in set(State) - {State.SYNCED}:
                self.assertEqual(TABLES[target][state, Event.UNSEEN_UPDATE], Transition(state))

    def test_a_scaler_ends_only_steps_whose_gradients_have_come(self):
        abandoned = Transition(State.BETWEEN, Action.ABANDON)
        for target in Target:
            there = self.states_of(target, Event.SCALED, abandoned)
            self.assertEqual(there, {State.PARTLY, State.SYNCED})

    def test_a_refusal_changes_nothing(self):
        machine = StepMachine(Target.DDP)
        machine.on(Event.FORWARD)
        self.assertEqual(machine.on(Event.SPARSE_CAME), SPARSE)
        self.assertIs(machine.state, State.OPEN)
        self.assertIn("weight gets a sparse", SPARSE.text.format(name="weight"))


if __name__ == "__main__":
    unittest.main()
