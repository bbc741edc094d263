//! The result of one check, and its output.

use anyhow::Result;
use serde_json::{Value, json};

use crate::out;

/// The result of one check.
pub(super) struct Check {
    pub(super) name: String,
    pub(super) is_ok: bool,
    /// True if nerve does not work after a failure.
    pub(super) is_essential: bool,
    /// Result of the check, or the reason why it failed.
    pub(super) detail: String,
    /// Printed only after a failure.
    pub(super) hint: Option<String>,
}

impl Check {
    /// Creates a check. `result`: the result, or the reason why the check failed.
    pub(super) fn new(name: &str, result: Result<String, String>) -> Check {
        let is_ok = result.is_ok();
        let detail = result.unwrap_or_else(|reason| reason);
        Check { name: name.to_string(), is_ok, is_essential: false, detail, hint: None }
    }

    /// Marks the check as essential.
    pub(super) fn essential(self) -> Check {
        Check { is_essential: true, ..self }
    }

    /// Sets what helps after a failure.
    pub(super) fn hint(self, hint: &str) -> Check {
        Check { hint: Some(hint.to_string()), ..self }
    }
}

/// Prints the checks for people.
pub(super) fn print(checks: &[Check]) -> Result<()> {
    out::line(format_args!("nerve {}", env!("CARGO_PKG_VERSION")))?;
    for check in checks {
        let mark = out::mark(check.is_ok, check.is_essential);
        out::line(format_args!("{mark} {:<18} {}", check.name, check.detail))?;
        if let Some(hint) = check.hint.as_deref().filter(|_| !check.is_ok) {
            out::line(format_args!("     {:<18} {}{hint}{:#}", "", out::FAINT, out::FAINT))?;
        }
    }
    Ok(())
}

/// Returns a check for programs.
pub(super) fn to_json(check: &Check) -> Value {
    json!({
        "name": check.name, "ok": check.is_ok, "essential": check.is_essential,
        "found": check.detail, "hint": check.hint.as_deref().filter(|_| !check.is_ok),
    })
}
