# Model order states as an enum with allowed transitions, and permissions as flags.
from enum import Enum, Flag, IntEnum, auto


class Status(Enum):
    NEW = "new"
    PAID = "paid"
    SHIPPED = "shipped"
    DONE = "done"

    @property
    def next_states(self):
        return {Status.NEW: [Status.PAID], Status.PAID: [Status.SHIPPED], Status.SHIPPED: [Status.DONE]}.get(self, [])

    def can_become(self, other):
        return other in self.next_states


class Priority(IntEnum):
    LOW = 1
    HIGH = 10


class Permission(Flag):
    READ = auto()
    WRITE = auto()
    EXECUTE = auto()
    ALL = READ | WRITE | EXECUTE


for state in Status:
    print(f"{state.name:<8} {state.value:<8} -> {[s.name for s in state.next_states]}")
print(Status("paid") is Status.PAID, Status["DONE"], repr(Status.NEW), Status.NEW.can_become(Status.DONE))
print(sorted([Priority.HIGH, Priority.LOW]), Priority.HIGH > 5, Priority.LOW + 1, list(Priority.__members__))
mask = Permission.READ | Permission.WRITE
print(Permission.WRITE in mask, Permission.EXECUTE in mask, mask.value, (Permission.ALL & ~Permission.READ).value)
try:
    Status("lost")
except ValueError as e:
    print(e)
