//! What a request is part of: the caller's span, as W3C Trace Context has it.

use nerve_api::{Request, RequestName};
use nerve_core::command::Command;
use nerve_core::telemetry::TraceContext;
use serde_json::Value;

/// Characters of a value that a warning repeats.
const SHOWN: usize = 64;

/// Commands that do something for which a caller may wait, or in which programs are asked.
pub(crate) fn takes(command: RequestName) -> bool {
    use RequestName::{ExecuteGraph, ExecuteInput, RunCommand, RunGraph};
    matches!(command, ExecuteInput | RunCommand | ExecuteGraph | RunGraph)
}

/// Says in `command` what `request` is part of. A value that is none never fails a request: it is left out, and `warnings` says so.
pub(super) fn put(command: &mut Command, request: &Request, warnings: &mut Vec<String>) {
    if !takes(request.command) {
        return;
    }
    let text = |name: &str| request.params.get(name).and_then(Value::as_str);
    let Some(parent) = text("traceparent").filter(|parent| !parent.is_empty()) else { return };
    let context = match TraceContext::parse(parent, text("tracestate")) {
        Ok(context) => context,
        Err(problem) => {
            let shown: String = parent.chars().take(SHOWN).collect();
            warnings.push(format!("params.traceparent {shown:?} is left out: {problem}"));
            return;
        }
    };
    match command {
        Command::ExecuteInput(execute) => execute.trace = Some(context),
        Command::RunGraph(run) => run.parent = Some(context),
        Command::RunCommand { trace, .. } => *trace = Some(context),
        _ => {}
    }
}
