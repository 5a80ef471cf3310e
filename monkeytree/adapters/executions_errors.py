"""What may be refused of executions and agents, each with a stable code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from monkeytree.errors import MonkeyTreeError


class UnknownExecution(MonkeyTreeError):
    """No execution of that id."""

    code = "unknown_execution"

    def __init__(self, execution_id: str) -> None:
        super().__init__(f"no execution has the id {execution_id!r}; GET /v1/executions lists them")


class ExecutionRefused(MonkeyTreeError):
    """Base of the reasons why a plan is not carried out; ``errors`` lists what stands in the way."""

    code = "execution_refused"

    def __init__(self, message: str, errors: Sequence[dict[str, Any]] = ()) -> None:
        super().__init__(message)
        self.errors = tuple(errors)


class ExecutionsDisabled(ExecutionRefused):
    """The service only recommends: executions are off for the cluster."""

    code = "executions_disabled"


class NothingToExecute(ExecutionRefused):
    """The plan has neither moves, new ring orders nor source ports."""

    code = "nothing_to_execute"


class NotWorthwhile(ExecutionRefused):
    """The plan costs more than it gains, and planning.trigger asks for plans that do not."""

    code = "not_worthwhile"


class NotExecutable(ExecutionRefused):
    """The plan moves workers that agents cannot move live."""

    code = "not_executable"


class JobOptedOut(ExecutionRefused):
    """A job of the plan carries the label that keeps agents from it."""

    code = "job_opted_out"


class SequenceMismatch(ExecutionRefused):
    """The newest snapshot of the cluster is not the one the caller expects."""

    code = "sequence_mismatch"


class ClusterChanged(ExecutionRefused):
    """The cluster is no longer as the plan was made for."""

    code = "cluster_changed"


class AgentMissing(ExecutionRefused):
    """A node of the plan has no agent that beats."""

    code = "agent_missing"


class ExecutionOverlaps(ExecutionRefused):
    """Another execution holds a job, a node or a rack of the plan."""

    code = "execution_overlaps"


class MoveLimit(ExecutionRefused):
    """The site's limit of moves per hour would be passed."""

    code = "move_limit"


class JobCoolingDown(ExecutionRefused):
    """A job of the plan was paused a short while ago."""

    code = "job_cooling_down"


class OutsideWindow(ExecutionRefused):
    """No maintenance window is open."""

    code = "outside_window"


class StaleAgent(MonkeyTreeError):
    """A newer agent runs the node, or another one of the same epoch."""

    code = "stale_agent"

    def __init__(self, node: str, epoch: int, newest: int, url: str) -> None:
        if epoch < newest:
            words = (
                f"an agent with epoch {newest} runs node {node!r}; epoch {epoch} is older: stop it, or start "
            )
            super().__init__(words + "it anew with a higher one")
            return
        super().__init__(
            f"an agent at {url} with the same epoch {epoch} runs node {node!r}: stop one of both (a data "
            "folder that was copied makes two of the same), or start this one anew with a higher epoch"
        )


class UnknownNode(MonkeyTreeError):
    """No snapshot of the cluster has that node."""

    code = "unknown_node"

    def __init__(self, cluster: str | None, node: str) -> None:
        whose = "of any cluster" if cluster is None else f"of cluster {cluster!r}"
        super().__init__(
            f"the newest snapshot {whose} has no node {node!r}; post a snapshot that has it, "
            "or start the agent with the node's right name"
        )
