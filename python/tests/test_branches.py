"""Snapshots and branches of recorded nodes."""

from __future__ import annotations

from pathlib import Path

import pytest
from servers import SHELL, Server

from nerve_sdk import InvalidRequestError, NotFoundError


async def test_snapshot_is_taken_listed_and_restored(server: Server, transport: str, name: str, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "file").write_text("old")
    async with server.connect(transport) as client:
        node = await client.create_node(name, SHELL, cwd=str(project))
        try:
            async with await client.subscribe(node_id=name, types=["SNAPSHOT_TAKEN"]) as events:
                taken = await client.take_snapshot(name, "first")
                assert taken.files is not None and (taken.label, taken.files.source) == ("first", str(project.resolve()))
                # Events from before the subscription may precede it.
                while (event := await events.__anext__()).event_type != "SNAPSHOT_TAKEN":
                    pass
                assert (event.node_id, event.data["snapshot_id"]) == (name, taken.snapshot_id)
            (project / "file").write_text("new")
            assert [snapshot.label for snapshot in await client.list_snapshots(name)] == ["first"]
            restored = await client.restore_snapshot(taken.snapshot_id, str(tmp_path / "restored"), name)
            assert restored.left_out == [] and (tmp_path / "restored/file").read_text() == "old"
            with pytest.raises(NotFoundError):
                await client.restore_snapshot(99, str(tmp_path / "other"), name)
            with pytest.raises(InvalidRequestError, match="not a known agent"):
                await client.create_branch("Continue", name, taken.snapshot_id)
            assert name not in [branch.used_by for branch in await client.list_branches()]
            with pytest.raises(NotFoundError):
                await client.delete_branch("none")
            assert (await client.list_recordings(1))[0].live
            assert (await client.prune_recordings(max_size=0, dry_run=True)).dry_run
            with pytest.raises(InvalidRequestError, match="older_than"):
                await client.prune_recordings()
        finally:
            await node.stop()
