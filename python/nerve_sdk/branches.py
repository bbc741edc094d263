"""Commands for recordings, and for snapshots and branches of recorded sessions."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Union

from .reply import field_of, from_wire, list_of
from .types import (
    BranchCreated,
    BranchDeleted,
    BranchInfo,
    RecordedOutput,
    RecordingFile,
    RecordingInfo,
    RecordingTimeline,
    RecordingsPruned,
    SnapshotInfo,
    SnapshotRestored,
    SnapshotTaken,
)


class BranchCommands:
    """A client's commands for recordings, snapshots and branches. Paths are absolute paths on the server's machine.

    A session is selected by its node (`node_id`, in `session_id`) or by its `recording`: an id, a unique prefix, or a path.
    """

    async def request(self, command: str, params: Optional[Mapping[str, Any]] = None) -> Any:
        """Sends a command and waits for the `data` of its result."""
        raise NotImplementedError

    async def list_recordings(self, last: Optional[int] = None) -> List[RecordingInfo]:
        """Lists the recordings on the server's machine, last written first; at most `last`."""
        return list_of(RecordingInfo, field_of(await self.request("LIST_RECORDINGS", {"last": last}), "recordings"))

    async def prune_recordings(
        self,
        *,
        older_than: Optional[float] = None,
        max_size: Optional[int] = None,
        branches: bool = False,
        force: bool = False,
        dry_run: bool = False,
    ) -> RecordingsPruned:
        """Removes recordings that ended more than `older_than` seconds ago, the oldest beyond `max_size` bytes, and unneeded folders.

        `branches`: also folders of branches without a node; `force`: also those with unsaved changes; `dry_run`: removes nothing.
        """
        params: Dict[str, Any] = {"older_than": older_than, "max_size": max_size}
        params.update({"branches": branches, "force": force, "dry_run": dry_run})
        return from_wire(RecordingsPruned, await self.request("PRUNE_RECORDINGS", params))

    async def timeline(
        self,
        recording: Optional[str] = None,
        *,
        node_id: Optional[str] = None,
        session_id: Optional[str] = None,
        since: Optional[str] = None,
        timeout: Optional[float] = None,
    ) -> RecordingTimeline:
        """Returns an overview of a recording, or of a node's newest one. That of a long one is complete only after several requests.

        `since`: the `version` of an earlier one; waits until it has changed, at most `timeout` seconds (default: 30).
        """
        params: Dict[str, Any] = {"recording": recording, "node_id": node_id, "session_id": session_id}
        params.update({"since": since, "timeout": timeout})
        return from_wire(RecordingTimeline, await self.request("GET_TIMELINE", params))

    async def read_recording(
        self,
        recording: str,
        *,
        at: Optional[float] = None,
        offset: Optional[int] = None,
        output_only: bool = False,
        limit: Optional[int] = None,
    ) -> RecordedOutput:
        """Returns the terminal of a recording at a position, in seconds or by offset, and the output that follows."""
        params = {"recording": recording, "at": at, "offset": offset, "output_only": output_only, "limit": limit}
        return from_wire(RecordedOutput, await self.request("READ_RECORDING", params))

    async def get_recording_file(self, recording: str, *, offset: int = 0, limit: Optional[int] = None) -> RecordingFile:
        """Returns a range of a recording's file: at most `limit` bytes (default: 262144) from `offset` on."""
        params = {"recording": recording, "offset": offset, "limit": limit}
        return from_wire(RecordingFile, await self.request("GET_RECORDING_FILE", params))

    async def list_snapshots(
        self,
        node_id: Optional[str] = None,
        *,
        recording: Optional[str] = None,
        session_id: Optional[str] = None,
        dir: Optional[str] = None,
        last: Optional[int] = None,
    ) -> List[SnapshotInfo]:
        """Lists the snapshots of a recorded session; without one, all snapshots with files. Git snapshots are searched in `dir` too."""
        params = {"node_id": node_id, "recording": recording, "session_id": session_id, "dir": dir, "last": last}
        return list_of(SnapshotInfo, field_of(await self.request("LIST_SNAPSHOTS", params), "snapshots"))

    async def take_snapshot(
        self,
        node_id: Optional[str] = None,
        label: Optional[str] = None,
        *,
        recording: Optional[str] = None,
        session_id: Optional[str] = None,
        snapshot_id: Optional[int] = None,
        dir: Optional[str] = None,
        limit: Optional[int] = None,
        no_files: bool = False,
        timeout: Optional[float] = None,
    ) -> SnapshotTaken:
        """Marks the present in a recording and stores the files of `dir` (None: the program's start directory)."""
        params: Dict[str, Any] = {"node_id": node_id, "label": label, "recording": recording, "session_id": session_id}
        params.update({"snapshot_id": snapshot_id, "dir": dir, "limit": limit, "no_files": no_files, "timeout": timeout})
        return from_wire(SnapshotTaken, await self.request("TAKE_SNAPSHOT", params))

    async def restore_snapshot(
        self,
        snapshot_id: int,
        to: str,
        node_id: Optional[str] = None,
        *,
        recording: Optional[str] = None,
        session_id: Optional[str] = None,
        dir: Optional[str] = None,
    ) -> SnapshotRestored:
        """Restores the files of a snapshot to the directory `to`, which must be empty or not exist."""
        params: Dict[str, Any] = {"snapshot_id": snapshot_id, "to": to, "node_id": node_id, "recording": recording}
        params.update({"session_id": session_id, "dir": dir})
        return from_wire(SnapshotRestored, await self.request("RESTORE_SNAPSHOT", params))

    async def create_branch(
        self,
        instruction: str,
        source_id: Optional[str] = None,
        at: Union[str, int] = "end",
        *,
        recording: Optional[str] = None,
        target_id: Optional[str] = None,
        session_id: Optional[str] = None,
        to: Optional[str] = None,
        in_place: bool = False,
        dir: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        proxy: Union[str, Mapping[str, Any], None] = None,
        no_proxy: bool = False,
        wait: bool = True,
        timeout: Optional[float] = None,
        dry_run: bool = False,
    ) -> BranchCreated:
        """Creates a node that continues a recorded session, and sends it the instruction.

        `at` is a snapshot's number or label, `end`, or `now` to take one first. With `wait`, the answer is in `response`.
        """
        params: Dict[str, Any] = {"instruction": instruction, "source_id": source_id, "at": str(at), "recording": recording}
        params.update({"target_id": target_id, "session_id": session_id, "to": to, "in_place": in_place, "dir": dir})
        params.update({"env": dict(env or {}), "proxy": proxy, "no_proxy": no_proxy})
        params.update({"wait": wait, "timeout": timeout, "dry_run": dry_run})
        return from_wire(BranchCreated, await self.request("CREATE_BRANCH", params))

    async def list_branches(self) -> List[BranchInfo]:
        """Lists the folders of branches."""
        return list_of(BranchInfo, field_of(await self.request("LIST_BRANCHES"), "branches"))

    async def delete_branch(self, name: str, force: bool = False) -> BranchDeleted:
        """Removes the folder of a branch that no node uses. `force` also removes one with changed files."""
        return from_wire(BranchDeleted, await self.request("DELETE_BRANCH", {"name": name, "force": force}))
