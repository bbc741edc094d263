//! Examples of requests and their replies, for the OpenAPI document and the documentation page.

use serde_json::{Value, json};

use super::RequestName;

/// A request and its reply.
#[derive(Debug, Clone, PartialEq)]
pub struct Example {
    /// Parameters of the request.
    pub params: Value,
    /// Reply to it.
    pub reply: Value,
}

impl RequestName {
    /// Returns an example of the request.
    pub fn example(self) -> Example {
        let (params, reply) = match self {
            RequestName::CreateNode => (
                json!({ "node_id": "me", "command": "claude", "cwd": "/home/me/site", "env": { "LANG": "C" } }),
                json!({ "node_id": "me" }),
            ),
            RequestName::StartNode => (node(), json!({ "node_id": "me" })),
            RequestName::StopNode => (node(), json!({ "stopped": true })),
            RequestName::ListNodes => {
                (json!({}), json!({ "nodes": ["me"], "nodes_info": [described("id")] }))
            }
            RequestName::GetNode => (node(), described("node_id")),
            RequestName::ForkNode => (
                json!({ "source_id": "me", "target_id": "me-2", "at": 3 }),
                json!({ "node_id": "me-2", "forked_from": "me" }),
            ),
            RequestName::RunCommand => {
                (json!({ "node_id": "sh", "command": "make watch" }), json!({ "executed": true }))
            }
            RequestName::ExecuteInput => (
                json!({ "node_id": "me", "text": "What does main.rs do?", "timeout": 300.0 }),
                json!({ "response": response(), "node_id": "me", "turn": 1 }),
            ),
            RequestName::GetResult => (json!({ "result_id": RESULT, "wait": true }), result(true)),
            RequestName::ListResults => {
                (json!({ "node_id": "me", "last": 10 }), json!({ "results": [result(false)] }))
            }
            RequestName::CancelResult => (
                json!({ "result_id": RESULT }),
                json!({
                    "result_id": RESULT, "node_id": "me", "session_id": "default", "status": "failed", "prompt": "Fix the test",
                    "created_at": 1764500000.1, "started_at": 1764500000.2, "ended_at": 1764500004.0,
                    "error": "cancelled", "error_type": "cancelled",
                }),
            ),
            RequestName::SendInterrupt => (node(), json!({ "interrupted": true })),
            RequestName::WriteData => {
                (json!({ "node_id": "sh", "data": "echo hi\r" }), json!({ "written": 8 }))
            }
            RequestName::ResizeNode => (json!({ "node_id": "sh", "cols": 120, "rows": 40 }), json!({})),
            RequestName::GetBuffer => {
                (json!({ "node_id": "sh", "lines": 2 }), json!({ "buffer": "$ echo hi\nhi" }))
            }
            RequestName::ClearBuffer => (node(), json!({})),
            RequestName::GetHistory => (
                json!({ "node_id": "me", "last": 1, "inputs_only": true }),
                json!({
                    "node_id": "me", "channel_id": "me", "server_name": "default", "total": 1,
                    "entries": [{ "seq": 1, "op": "send", "input": "What does main.rs do?" }],
                }),
            ),
            RequestName::WaitNode => (
                json!({ "node_id": "me", "until": ["ready", "blocked"], "timeout": 60.0 }),
                json!({ "state": "ready" }),
            ),
            RequestName::ExplainNode => (
                node(),
                json!({
                    "node_id": "me", "state": "blocked", "evidence": "Do you trust the files in this folder?", "source": "screen",
                    "offset": 2310, "choices": ["Yes", "No"], "screen": "1. Yes\n2. No", "turn": { "turn": 2, "delivery": "submitted" },
                    "metadata": { "command": "claude", "cwd": "/home/me/site", "session": "default" },
                }),
            ),
            RequestName::AnswerNode => (
                json!({ "node_id": "me", "choice": 1, "wait": true }),
                json!({ "response": response(), "node_id": "me", "turn": 2 }),
            ),
            RequestName::CreateGraph => (
                json!({ "definition": graph() }),
                json!({ "graph_id": "review", "session_id": "default", "steps": ["read", "ok"], "definition": graph() }),
            ),
            RequestName::GetGraph => (
                json!({ "graph_id": "review" }),
                json!({ "graph_id": "review", "session_id": "default", "steps": ["read", "ok"], "definition": graph() }),
            ),
            RequestName::ListGraphs => (
                json!({}),
                json!({
                    "graphs": ["review"],
                    "graphs_info": [{ "graph_id": "review", "session_id": "default", "steps": ["read", "ok"] }],
                }),
            ),
            RequestName::DeleteGraph => (json!({ "graph_id": "review" }), json!({})),
            RequestName::ExecuteGraph => (json!({ "definition": graph(), "input": "src" }), ended()),
            RequestName::RunGraph => {
                (json!({ "graph_id": "review", "input": "src", "run_id": "r-1", "detach": true }), run())
            }
            RequestName::CancelGraph => {
                (json!({ "run_id": "r-1" }), json!({ "cancelled": true, "runs": ["r-1"] }))
            }
            RequestName::ListRuns => (json!({}), json!({ "runs": [run()] })),
            RequestName::GetRun => (json!({ "run_id": "r-1", "last": 100 }), run()),
            RequestName::ResumeRun => (json!({ "run_id": "r-1", "trace": false, "detach": false }), ended()),
            RequestName::AnswerGate => (json!({ "run_id": "r-1", "step_id": "ok", "choice": "yes" }), run()),
            RequestName::CreateSession => {
                (json!({ "name": "site", "description": "The new website", "tags": ["web"] }), session())
            }
            RequestName::GetSession => (json!({ "name": "site" }), session()),
            RequestName::ListSessions => (json!({}), json!({ "sessions": [session()] })),
            RequestName::DeleteSession => (json!({ "name": "site" }), json!({})),
            RequestName::StartSession => (
                json!({ "name": "site" }),
                json!({ "nodes": ["me"], "failed": [{ "node_id": "sh", "error": "cannot start 'zsh': not found" }] }),
            ),
            RequestName::StopSession => (json!({ "name": "site" }), json!({ "nodes": ["me"], "failed": [] })),
            RequestName::ListRecordings => (
                json!({ "last": 1 }),
                json!({
                    "recordings": [{
                        "id": RECORDED, "path": RECORDING, "started_at": 1764500000.5, "started_ts_ns": 1764500000500000000_u64,
                        "duration": 61.5, "duration_ns": 61500000000_u64, "bytes": 48123, "cols": 120, "rows": 40,
                        "command": ["claude"], "exit": { "code": 0 }, "snapshots": 3, "live": false,
                        "empty": false,
                    }],
                }),
            ),
            RequestName::PruneRecordings => (
                json!({ "older_than": 2592000.0, "branches": true, "force": false, "dry_run": true }),
                json!({
                    "removed": [{ "id": RECORDED, "path": RECORDING, "bytes": 48123, "reason": "age" }],
                    "bytes": 48123, "total": 12, "dry_run": true,
                    "branches": [{
                        "path": BRANCH, "removed": false, "why": "used by node 'me-2'", "needed": true, "orphaned": false,
                    }],
                }),
            ),
            RequestName::ListSnapshots => {
                (json!({ "node_id": "me", "last": 1 }), json!({ "snapshots": [snapshot()] }))
            }
            RequestName::TakeSnapshot => {
                let mut taken = snapshot();
                taken["left_out"] = json!(["/home/me/site/dump.sql: larger than the limit"]);
                (json!({ "node_id": "me", "label": "before the refactoring" }), taken)
            }
            RequestName::RestoreSnapshot => (
                json!({ "id": 3, "node_id": "me", "to": "/tmp/before" }),
                json!({
                    "id": 3, "session": RECORDED, "to": "/tmp/before", "files": snapshot()["files"], "left_out": [],
                }),
            ),
            RequestName::CreateBranch => (
                json!({ "source_id": "me", "at": "3", "instruction": "Try it with fewer classes", "timeout": 300.0 }),
                branch(),
            ),
            RequestName::ListBranches => (
                json!({}),
                json!({
                    "branches": [{
                        "path": BRANCH, "made_ts_ns": 1764500100000000000_u64, "recording": RECORDING, "snapshot": 3,
                        "source": "/home/me/site", "git_branch": "nerve/me-2", "used_by": "node 'me-2'", "recordings": [RECORDING],
                        "changed": true, "changes": "1 file changed",
                    }],
                }),
            ),
            RequestName::DeleteBranch => {
                (json!({ "name": "me-2", "force": true }), json!({ "path": BRANCH, "note": null }))
            }
            RequestName::Subscribe => (
                json!({ "node_id": "me", "types": ["NODE_READY", "NODE_BLOCKED"], "since": 41 }),
                json!({ "subscribed": true, "seq": 42, "server": "0198c1f2" }),
            ),
            RequestName::Authenticate => (json!({ "token": "secret" }), json!({ "authenticated": true })),
            RequestName::Shutdown => (json!({ "keep_nodes": true }), json!({ "stopped": true })),
            RequestName::Ping => (
                json!({}),
                json!({ "pong": true, "nodes": 1, "graphs": 0, "sessions": 1, "version": "1.0.0" }),
            ),
        };
        Example { params, reply }
    }
}

const RESULT: &str = "0198c1f2-7b1c-7000-8000-000000000001";
const RECORDED: &str = "0198c1f2-7b1c-7000-8000-000000000002";
const RECORDING: &str = "/home/me/.local/state/nerve/recordings/0198c1f2-7b1c-7000-8000-000000000002.ahr";
const CUT: &str = "0198c1f2-7b1c-7000-8000-000000000003";
const BRANCH: &str = "/home/me/.local/state/nerve/branches/me-2";

fn node() -> Value {
    json!({ "node_id": "me" })
}

/// Returns the description of a node; its id is in the field `id`.
fn described(id: &str) -> Value {
    json!({
        id: "me", "type": "pty", "state": "ready", "persistent": true,
        "metadata": { "command": "claude", "cwd": "/home/me/site", "profile": "claude", "session": "default" },
    })
}

fn response() -> Value {
    json!({
        "raw": "● It parses the arguments.", "text": "It parses the arguments.",
        "sections": [{ "type": "text", "content": "It parses the arguments.", "metadata": {} }],
        "tokens": { "input": 1200, "output": 9 }, "is_complete": true, "is_ready": true, "source": "transcript",
        "delivery": "started", "interrupted": false, "success": true, "error": null, "error_type": null, "output": "It parses the arguments.",
        "attributes": { "ended_by": "the composer is empty" },
    })
}

/// Returns the result of an asynchronous execution; lists are without the response.
fn result(with_response: bool) -> Value {
    let mut result = json!({
        "result_id": RESULT, "node_id": "me", "session_id": "default", "status": "done", "prompt": "What does main.rs do?",
        "created_at": 1764500000.1, "started_at": 1764500000.2, "ended_at": 1764500004.0, "turn": 1,
    });
    if with_response {
        result["response"] = response();
    }
    result
}

fn graph() -> Value {
    json!({
        "graph": "review",
        "steps": [
            { "id": "read", "node": "me", "input": "Review {{ input }}" },
            { "id": "ok", "gate": { "question": "Ship it?", "choices": ["yes", "no"] }, "depends_on": ["read"] },
        ],
    })
}

fn run() -> Value {
    json!({
        "run_id": "r-1", "graph_id": "review", "session_id": "default", "status": "waiting", "started_at": 1764500000.1,
        "ended_at": null, "total_steps": 2, "done_steps": 1,
        "steps": [{
            "step_id": "read", "node_id": "me", "state": "completed", "started_at": 1764500000.1, "ended_at": 1764500009.4,
            "attempt": 1, "tokens_used": 1209, "error": null,
        }],
        "gates": [{ "step_id": "ok", "question": "Ship it?", "choices": ["yes", "no"], "default": null, "deadline": null }],
        "tokens_used": 1209, "error": null, "journal": "/home/me/.local/state/nerve/runs/default/r-1.jsonl",
    })
}

fn ended() -> Value {
    json!({
        "graph_id": "review", "run_id": "r-1", "status": "completed",
        "results": { "read": response(), "ok": { "choice": "yes", "by": "person" } },
        "started_at": 1764500000.1, "ended_at": 1764500042.0, "tokens_used": 1209,
        "journal": "/home/me/.local/state/nerve/runs/default/r-1.jsonl",
    })
}

fn snapshot() -> Value {
    json!({
        "id": 3, "session": RECORDED, "ts_ns": 1764500000100000000_u64, "anchor_byte": 48213, "label": "before the refactoring",
        "files": { "provider": "git", "source": "/home/me/site", "reference": format!("refs/nerve/snapshots/{RECORDED}/3") },
    })
}

fn branch() -> Value {
    json!({
        "recording": RECORDING,
        "snapshot": {
            "id": 3, "label": "before the refactoring", "ts_ns": 1764500000100000000_u64, "anchor_byte": 48213,
        },
        "files": { "provider": "git", "source": "/home/me/site", "reference": format!("refs/nerve/snapshots/{RECORDED}/3"), "to": BRANCH },
        "conversation": {
            "kind": "cut", "about": format!("the first 2 of 5 turns: /home/me/1.jsonl copied to /home/me/{CUT}.jsonl"), "why": null,
            "from": "/home/me/1.jsonl", "to": format!("/home/me/{CUT}.jsonl"), "turns": 2, "of": 5,
        },
        "command": ["claude", "--resume", CUT], "cwd": BRANCH, "node_id": "me-2", "session_id": null, "server": "default",
        "environment": { "given": [], "taken_over": ["LANG"], "missing": [] }, "proxy": null, "git_branch": "nerve/me-2",
        "left_out": [], "response": response(),
    })
}

fn session() -> Value {
    json!({
        "name": "site", "description": "The new website", "tags": ["web"], "nodes": ["me"], "graphs": [],
        "created_at": 1764500000.1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns true if everything in `part` is in `whole`. A request without an optional field has its default.
    fn contains(whole: &Value, part: &Value) -> bool {
        match (whole, part) {
            (Value::Object(whole), Value::Object(part)) => {
                part.iter().all(|(name, value)| whole.get(name).is_some_and(|found| contains(found, value)))
            }
            _ => whole == part,
        }
    }

    #[test]
    fn every_example_decodes_without_loss() {
        for &name in RequestName::ALL {
            let example = name.example();
            let [params, reply] = name.round_trip(&example.params, &example.reply);
            assert!(contains(&params, &example.params), "{name}: {params}");
            assert_eq!(reply, example.reply, "{name}");
        }
    }
}
