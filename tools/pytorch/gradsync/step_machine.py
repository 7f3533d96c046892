"""A state machine that decides where in a training step a model is, and what the recorder does at
each event.

A step begins with a forward in training mode or, if the script trains in eval mode, in either mode.
Forwards without gradients enabled are ignored. The step ends with the step() of the model's last
optimizer, or with the next forward, which may be in an optimizer's closure:

    BETWEEN --forward--> OPEN --last backward--> SYNCED --step()--> UPDATED --last step()--> BETWEEN
    OPEN --a backward that does not synchronise--> PARTLY --last backward--> SYNCED
    BETWEEN --forward in eval mode--> EVALUATED --backward--> SKIPPED --end of step()--> BETWEEN

If, between two steps, a backward after a forward in eval mode computes gradients of the model, the
script trains in eval mode. From then on, a forward in eval mode also begins a step. If a GradScaler
skips the first update of a step, the step is not recorded.

The dictionary `TABLES` has a table for DDP, one for fully_shard, and one for other modules. A table
has, for every state and event, the next state and action, or the reason why the event cannot be
recorded. The tables differ in a few rows: what happens if an optimizer steps before gradients are
synchronised, and if gradients come again after they were synchronised. This module does not need
PyTorch.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class State(Enum):
    """Where in a training step a model is; see the diagram at the beginning of this file."""

    BETWEEN = "between"  # two steps
    EVALUATED = "evaluated"  # BETWEEN, after a forward in eval mode
    OPEN = "open"  # a forward of the step has begun, and no gradient has come
    PARTLY = "partly"  # gradients of at least one pass have come, and are not synchronised
    SYNCED = "synced"  # the gradients are those of all ranks
    UPDATED = "updated"  # an optimizer has begun to update the model
    SKIPPED = "skipped"  # a step that is not recorded


class Event(Enum):
    """Something that happens to a model while it trains, such as the beginning of a forward."""

    # A forward begins: in the mode in which steps begin; in eval mode while steps do not begin in
    # it; within DDP's join().
    FORWARD = auto()
    EVAL_FORWARD = auto()
    JOINED_FORWARD = auto()
    # A backward has ended: without a gradient for the model; with a sparse one; with gradients that
    # it did not prepare to synchronise; with gradients that it did.
    NOTHING_CAME = auto()
    SPARSE_CAME = auto()
    ACCUMULATED = auto()
    SYNCHRONISED = auto()
    # A backward has ended whose weights are not those of the backward before, though no optimizer
    # has stepped; the same, after several passes.
    CHANGED = auto()
    CHANGED_AFTER_PASSES = auto()
    # What updates the model, and is no optimizer of torch.optim, has done so.
    UNSEEN_UPDATE = auto()
    # step() of an optimizer of the model begins, with gradients that came since the last one; it
    # begins without such or with a closure, or this closure has returned.
    STEP = auto()
    MAY_STEP = auto()
    # step() of an optimizer of the model has ended, but not of all; step() of the last one has.
    STEPPED = auto()
    ALL_STEPPED = auto()
    # A GradScaler has dealt with an optimizer of the model.
    SCALED = auto()


class Action(Enum):
    """What the recorder must do when an event happens, such as begin to measure a step."""

    NOTHING = auto()
    BEGIN = auto()  # a step
    END_AND_BEGIN = auto()
    COUNT_PASS = auto()
    SYNCHRONISE = auto()  # counts the pass, too
    NOTE_UNSEEN_UPDATES = auto()  # the model is updated by what is no optimizer of torch.optim
    BEGIN_IN_EVAL_MODE = auto()  # steps begin with forwards in eval mode from now on
    UPDATE = auto()  # an update begins now
    UPDATE_UNSEEN = auto()  # it began when the gradients were synchronised
    NOTE_UPDATED = auto()  # an optimizer has ended its update
    NOTE_UPDATED_AND_END = auto()
    FORGET_UPDATE = auto()  # what the last update is measured from belongs to another model
    ABANDON = auto()  # the step


class Target(Enum):
    """Whether the model is in DDP, under fully_shard, or neither."""

    PLAIN = "a module in one process"
    DDP = "DistributedDataParallel"
    SHARDED = "fully_shard"


@dataclass(frozen=True)
class Transition:
    """What follows from an event in a certain state: the next state, and what the recorder must
    do."""

    to: State
    action: Action = Action.NOTHING


@dataclass(frozen=True)
class Refusal:
    """One line of text that tells why a call of the script, such as a forward or an optimizer's
    step(), cannot be recorded. `{name}` stands for a parameter's name."""

    text: str


Rule = Transition | Refusal
Table = dict[tuple[State, Event], Rule]

JOINED = Refusal("gradsync does not record steps within join(): give all ranks as many batches")
SPARSE = Refusal(
    "{name} gets a sparse gradient, which gradsync does not record: use Embedding(sparse=False)"
)
SEVERAL_PASSES = Refusal(
    "several passes and no optimizer of torch.optim that ends them: gradsync does not record that"
)
NOT_CALLED = Refusal(
    "gradients come from no forward of the recorded model: call what DistributedDataParallel "
    "returned, not its module"
)
NOT_SYNCHRONISED = Refusal(
    "an optimizer steps with gradients that no backward synchronised, which gradsync does not "
    "record"
)
DDP_AGAIN = Refusal(
    "gradients come again after those of this step were synchronised, and nothing has updated the "
    "model: use no_sync around forward and backward of all passes but the last"
)
SHARDED_AGAIN = Refusal(
    "gradients come again after those of this step were reduced: use "
    "set_requires_gradient_sync(False) in all passes but the last"
)

_BEFORE_FORWARD = (State.BETWEEN, State.EVALUATED)
_BEFORE_UPDATE = (*_BEFORE_FORWARD, State.OPEN, State.PARTLY, State.SYNCED)


def _common() -> Table:
    """Returns the table of states and events that DDP, fully_shard and other modules have in
    common; _table_of() adds a few rows for each of the three. For a state and an event for which no
    row is set, the state does not change, and the recorder does nothing."""
    table: Table = {(state, event): Transition(state) for state in State for event in Event}

    def row(event: Event, states: tuple[State, ...], rule: Rule) -> None:
        for state in states:
            table[state, event] = rule

    row(Event.FORWARD, _BEFORE_FORWARD, Transition(State.OPEN, Action.BEGIN))
    row(Event.FORWARD, (State.UPDATED,), Transition(State.OPEN, Action.END_AND_BEGIN))
    row(Event.EVAL_FORWARD, (State.BETWEEN,), Transition(State.EVALUATED))
    row(Event.JOINED_FORWARD, tuple(State), JOINED)

    for state in _BEFORE_FORWARD:
        row(Event.NOTHING_CAME, (state,), Transition(state, Action.FORGET_UPDATE))
    row(Event.SPARSE_CAME, _BEFORE_UPDATE, SPARSE)
    for event in (Event.ACCUMULATED, Event.SYNCHRONISED):
        row(event, (State.BETWEEN,), NOT_CALLED)
        row(event, (State.EVALUATED,), Transition(State.SKIPPED, Action.BEGIN_IN_EVAL_MODE))
    passing = (State.OPEN, State.PARTLY)
    row(Event.ACCUMULATED, passing, Transition(State.PARTLY, Action.COUNT_PASS))
    row(Event.SYNCHRONISED, passing, Transition(State.SYNCED, Action.SYNCHRONISE))
    unseen = Transition(State.SYNCED, Action.NOTE_UNSEEN_UPDATES)
    row(Event.CHANGED, _BEFORE_UPDATE, unseen)
    row(Event.CHANGED_AFTER_PASSES, _BEFORE_UPDATE, SEVERAL_PASSES)

    row(Event.UNSEEN_UPDATE, (State.SYNCED,), Transition(State.UPDATED, Action.UPDATE_UNSEEN))
    for event in (Event.STEP, Event.MAY_STEP):
        row(event, (State.SYNCED,), Transition(State.UPDATED, Action.UPDATE))
    row(Event.STEP, (*_BEFORE_FORWARD, State.OPEN), NOT_SYNCHRONISED)
    noted = Transition(State.UPDATED, Action.NOTE_UPDATED)
    row(Event.STEPPED, (State.UPDATED,), noted)
    ended = Transition(State.BETWEEN, Action.NOTE_UPDATED_AND_END)
    row(Event.ALL_STEPPED, (State.UPDATED,), ended)
    for event in (Event.STEPPED, Event.ALL_STEPPED):
        row(event, (State.EVALUATED, State.SKIPPED), Transition(State.BETWEEN))
    abandoned = Transition(State.BETWEEN, Action.ABANDON)
    row(Event.SCALED, (State.PARTLY, State.SYNCED), abandoned)
    return table


def _table_of(target: Target) -> Table:
    table = _common()
    update = Transition(State.UPDATED, Action.UPDATE)
    if target is Target.DDP:
        table[State.PARTLY, Event.STEP] = NOT_SYNCHRONISED
    else:  # a step that is not recorded, because it has too few passes
        table[State.PARTLY, Event.STEP] = update
        table[State.PARTLY, Event.MAY_STEP] = update
    again: dict[Target, Rule] = {
        Target.DDP: DDP_AGAIN,
        Target.SHARDED: SHARDED_AGAIN,
        Target.PLAIN: Transition(State.SYNCED, Action.COUNT_PASS),
    }
    for event in (Event.ACCUMULATED, Event.SYNCHRONISED):
        table[State.SYNCED, event] = again[target]
    return table


TABLES: dict[Target, Table] = {target: _table_of(target) for target in Target}


class StepMachine:
    """Keeps the State of one model: where in a training step it is."""

    def __init__(self, target: Target) -> None:
        self.state = State.BETWEEN
        self._table = TABLES[target]

    def on(self, event: Event) -> Action | Refusal:
        """Changes `state` (where in a training step the model is) as TABLES says for this event,
        and returns the Action that the recorder must perform. If the event cannot be recorded,
        returns the Refusal, and does not change the state."""
        rule = self._table[self.state, event]
        if isinstance(rule, Refusal):
            return rule
        self.state = rule.to
        return rule.action
