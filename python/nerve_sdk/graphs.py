"""Commands for graphs and their runs."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional

from .reply import field_of, from_wire, list_of
from .types import GraphInfo, RunEnded, RunInfo


class GraphCommands:
    """A client's commands for graphs. `definition` has the format of a graph file."""

    async def request(self, command: str, params: Optional[Mapping[str, Any]] = None) -> Any:
        """Sends a command and waits for the `data` of its result."""
        raise NotImplementedError

    async def execute_graph(
        self,
        definition: Mapping[str, Any],
        input: Any = None,
        *,
        session_id: Optional[str] = None,
        run_id: Optional[str] = None,
        trace: bool = False,
        keep_nodes: bool = False,
        traceparent: Optional[str] = None,
    ) -> RunEnded:
        """Runs a graph and waits for its end. Cancelling the task does not cancel the run: use `cancel_run`.

        A failed or cancelled run raises a `ServerError` whose `data` has the completed steps.
        """
        options = _options(input, session_id, run_id, trace, keep_nodes, traceparent)
        return from_wire(RunEnded, await self.request("EXECUTE_GRAPH", {"definition": definition, **options}))

    async def start_graph(
        self,
        definition: Mapping[str, Any],
        input: Any = None,
        *,
        session_id: Optional[str] = None,
        run_id: Optional[str] = None,
        trace: bool = False,
        keep_nodes: bool = False,
        traceparent: Optional[str] = None,
    ) -> RunInfo:
        """Starts a graph without waiting; returns the new run."""
        options = _options(input, session_id, run_id, trace, keep_nodes, traceparent)
        params = {"definition": definition, "detach": True, **options}
        return from_wire(RunInfo, await self.request("EXECUTE_GRAPH", params))

    async def run_graph(
        self,
        graph_id: str,
        input: Any = None,
        *,
        session_id: Optional[str] = None,
        run_id: Optional[str] = None,
        trace: bool = False,
        keep_nodes: bool = False,
        traceparent: Optional[str] = None,
    ) -> RunEnded:
        """Runs a registered graph and waits for its end, like `execute_graph`."""
        options = _options(input, session_id, run_id, trace, keep_nodes, traceparent)
        return from_wire(RunEnded, await self.request("RUN_GRAPH", {"graph_id": graph_id, **options}))

    async def start_registered_graph(
        self,
        graph_id: str,
        input: Any = None,
        *,
        session_id: Optional[str] = None,
        run_id: Optional[str] = None,
        trace: bool = False,
        keep_nodes: bool = False,
        traceparent: Optional[str] = None,
    ) -> RunInfo:
        """Starts a graph without waiting; returns the new run."""
        options = _options(input, session_id, run_id, trace, keep_nodes, traceparent)
        params = {"graph_id": graph_id, "detach": True, **options}
        return from_wire(RunInfo, await self.request("RUN_GRAPH", params))

    async def create_graph(self, definition: Mapping[str, Any], session_id: Optional[str] = None) -> GraphInfo:
        """Registers a graph in a session, under its own id."""
        params = {"definition": definition, "session_id": session_id}
        return from_wire(GraphInfo, await self.request("CREATE_GRAPH", params))

    async def get_graph(self, graph_id: str, session_id: Optional[str] = None) -> GraphInfo:
        """Returns a registered graph with its definition."""
        params = {"graph_id": graph_id, "session_id": session_id}
        return from_wire(GraphInfo, await self.request("GET_GRAPH", params))

    async def list_graphs(self, session_id: Optional[str] = None) -> List[GraphInfo]:
        """Lists the graphs of a session, without definitions."""
        data = await self.request("LIST_GRAPHS", {"session_id": session_id})
        return list_of(GraphInfo, field_of(data, "graphs_info"))

    async def delete_graph(self, graph_id: str, session_id: Optional[str] = None) -> None:
        """Deletes a graph; its runs continue."""
        await self.request("DELETE_GRAPH", {"graph_id": graph_id, "session_id": session_id})

    async def cancel_graph(self, graph_id: str) -> List[str]:
        """Cancels all runs of a graph; returns their ids."""
        data = await self.request("CANCEL_GRAPH", {"graph_id": graph_id})
        return list(field_of(data, "runs"))

    async def cancel_run(self, run_id: str) -> List[str]:
        """Cancels a run; returns its id."""
        data = await self.request("CANCEL_GRAPH", {"run_id": run_id})
        return list(field_of(data, "runs"))

    async def list_runs(self) -> List[RunInfo]:
        """Lists all runs, newest first, without steps."""
        return list_of(RunInfo, field_of(await self.request("LIST_RUNS"), "runs"))

    async def get_run(
        self, run_id: str, last: Optional[int] = None, *, plan: bool = False, result_of: Optional[str] = None
    ) -> RunInfo:
        """Returns a run. `last`: only this many of its latest steps.

        `plan`: also all steps of the graph. `result_of`: also the result of the step with this path.
        """
        params = {"run_id": run_id, "last": last, "plan": plan, "result_of": result_of}
        return from_wire(RunInfo, await self.request("GET_RUN", params))

    async def resume_run(
        self, run_id: str, definition: Optional[Mapping[str, Any]] = None, *, trace: bool = False
    ) -> RunEnded:
        """Resumes a run whose server died, and waits for its end.

        `definition` replaces the run's graph; unchanged steps are not run again.
        """
        params = {"run_id": run_id, "definition": definition, "trace": trace}
        return from_wire(RunEnded, await self.request("RESUME_RUN", params))

    async def restart_run(self, run_id: str, definition: Optional[Mapping[str, Any]] = None) -> RunInfo:
        """Resumes a run without waiting; returns the run."""
        params = {"run_id": run_id, "definition": definition, "detach": True}
        return from_wire(RunInfo, await self.request("RESUME_RUN", params))

    async def answer_gate(self, run_id: str, choice: str, step_id: Optional[str] = None) -> RunInfo:
        """Answers the gate that a run waits at; returns the run. `step_id` is optional if only one gate waits."""
        params = {"run_id": run_id, "choice": choice, "step_id": step_id}
        return from_wire(RunInfo, await self.request("ANSWER_GATE", params))


def _options(
    input: Any,
    session_id: Optional[str],
    run_id: Optional[str],
    trace: bool,
    keep_nodes: bool,
    traceparent: Optional[str],
) -> Dict[str, Any]:
    return {
        "input": input,
        "session_id": session_id,
        "run_id": run_id,
        "trace": trace,
        "keep_nodes": keep_nodes,
        "traceparent": traceparent,
    }
