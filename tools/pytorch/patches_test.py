"""Replaced attributes come back, in whatever order they do, and whoever else replaces them."""

import functools
import sys
import types
import unittest

sys.path.insert(0, "tools/pytorch")
from gradsync.patches import Patches


class Base:
    def greet(self, name="you"):
        """Says hello."""
        return f"hello {name}"

    @staticmethod
    def twice(number):
        return 2 * number


class Derived(Base):
    pass


def louder(own, *args, **kwargs):
    return own(*args, **kwargs) + "!"


def attributes(*owners):
    return [dict(vars(owner)) for owner in owners]


class PatchesTest(unittest.TestCase):
    def setUp(self):
        self.before = attributes(Base, Derived)

    def tearDown(self):
        self.assertEqual(attributes(Base, Derived), self.before)

    def test_calls_go_through_the_replacement_until_it_is_undone(self):
        patches = Patches()
        patches.replace(Base, "greet", louder)
        self.assertEqual(Derived().greet(name="ada"), "hello ada!")
        self.assertEqual((Base.greet.__name__, Base.greet.__doc__), ("greet", "Says hello."))
        patches.undo()
        self.assertEqual(Derived().greet(), "hello you")
        patches.undo()  # nothing is left to undo

    def test_an_inherited_attribute_is_removed_again(self):
        with Patches() as patches:
            patches.replace(Derived, "greet", louder)
            self.assertEqual((Derived().greet(), Base().greet()), ("hello you!", "hello you"))
            self.assertIn("greet", vars(Derived))

    def test_static_methods_stay_static(self):
        patches = Patches()
        patches.replace(Base, "twice", lambda own, number: own(number) + 1)
        self.assertEqual(Base.twice(2), 5)
        patches.undo()
        self.assertEqual(Base().twice(2), 4)

    def test_modules_and_objects_are_owners_too(self):
        module, one = types.ModuleType("module"), Base()
        module.answer = lambda: "42"
        before = attributes(module, one)
        with Patches() as patches:
            patches.replace(module, "answer", louder)
            patches.replace(one, "greet", louder)
            self.assertEqual((module.answer(), one.greet()), ("42!", "hello you!"))
        self.assertEqual(attributes(module, one), before)

    def test_an_exception_undoes_them(self):
        with self.assertRaises(KeyError), Patches() as patches:
            patches.replace(Base, "greet", louder)
            raise KeyError
        self.assertEqual(Base().greet(), "hello you")

    def test_what_others_replaced_is_left_to_them_and_lets_calls_through(self):
        patches, own = Patches(), Base.greet
        patches.replace(Base, "greet", louder)
        ours = Base.greet
        Base.greet = lambda *args, **kwargs: ours(*args, **kwargs) + "?"
        theirs = Base.greet
        self.assertEqual(Base().greet(), "hello you!?")
        patches.undo()
        self.assertIs(Base.greet, theirs)
        self.assertEqual(Base().greet(), "hello you?")
        Base.greet = own

    def test_two_may_end_in_any_order(self):
        for first_to_end in (0, 1):
            both = Patches(), Patches()
            for patches in both:
                patches.replace(Derived, "greet", louder)
            self.assertEqual(Derived().greet(), "hello you!!")
            both[first_to_end].undo()
            self.assertEqual(Derived().greet(), "hello you!")
            both[1 - first_to_end].undo()
            self.assertEqual(attributes(Base, Derived), self.before)

    def test_what_wraps_ours_is_not_taken_for_ours(self):
        """functools.wraps() copies all attributes of what it wraps."""
        own = Base.greet
        below, above = Patches(), Patches()
        below.replace(Base, "greet", louder)
        Base.greet = theirs = functools.wraps(Base.greet)(lambda *_, ours=Base.greet: ours(*_))
        above.replace(Base, "greet", louder)
        below.undo()
        above.undo()
        self.assertIs(Base.greet, theirs)
        self.assertEqual(Base().greet(), "hello you")
        Base.greet = own

    def test_one_set_may_replace_a_name_twice_and_be_used_again(self):
        patches = Patches()
        for _ in range(2):
            patches.replace(Base, "greet", louder)
            patches.replace(Base, "greet", louder)
            self.assertEqual(Base().greet(), "hello you!!")
            patches.undo()
            self.assertEqual(attributes(Base, Derived), self.before)

    def test_kept_hooks_are_removed_once(self):
        removed = []
        patches = Patches()
        for i in range(2):
            patches.keep(types.SimpleNamespace(remove=lambda i=i: removed.append(i)))
        patches.undo()
        patches.undo()
        self.assertEqual(removed, [1, 0])


if __name__ == "__main__":
    unittest.main()
