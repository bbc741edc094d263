//! The agents, and the ways each of them draws.

use std::io;
use std::path::Path;

use nerve_testkit::{AgentRecipe, Hermetic, Renderer};

/// An agent, drawing in one of its ways.
#[derive(Debug)]
pub(crate) struct Way {
    /// The name of its program.
    pub(crate) agent: &'static str,
    /// Which way, for programs: `codex-inline`.
    pub(crate) name: &'static str,
    /// Which way, for people.
    pub(crate) title: &'static str,
    /// How it is started.
    pub(crate) recipe: fn(&Hermetic, &str) -> io::Result<AgentRecipe>,
    /// What makes it use a tool that needs no permission in a folder with `notes.txt`, given that file's path.
    pub(crate) tool: fn(&Path) -> String,
    /// What the tool's result holds.
    pub(crate) tool_says: &'static str,
    /// What makes it ask for a permission to make `made-by-tool.txt`.
    pub(crate) asking: &'static str,
}

/// All of them, in the order of the table.
pub(crate) const WAYS: [Way; 6] = [
    Way {
        agent: "claude",
        name: "claude-classic",
        title: "Claude Code, classic",
        recipe: |home, url| home.claude(&home.work(), url, Renderer::Classic),
        tool: read,
        tool_says: "beta note",
        asking: "TOUCHTOOL please",
    },
    Way {
        agent: "claude",
        name: "claude-full-screen",
        title: "Claude Code, full screen",
        recipe: |home, url| home.claude(&home.work(), url, Renderer::FullScreen),
        tool: read,
        tool_says: "beta note",
        asking: "TOUCHTOOL please",
    },
    Way {
        agent: "codex",
        name: "codex",
        title: "Codex, alternate screen",
        recipe: |home, url| home.codex(url, Renderer::FullScreen),
        // It has no tool to read with, and asks only for what its sandbox does not allow.
        tool: run,
        tool_says: "slept",
        asking: "ESCTOOL please",
    },
    Way {
        agent: "codex",
        name: "codex-inline",
        title: "Codex, `--no-alt-screen`",
        recipe: |home, url| home.codex(url, Renderer::Classic),
        tool: run,
        tool_says: "slept",
        asking: "ESCTOOL please",
    },
    Way {
        agent: "gemini",
        name: "gemini",
        title: "Gemini CLI",
        recipe: |home, url| home.gemini(url),
        tool: read,
        tool_says: "beta note",
        asking: "TOUCHTOOL please",
    },
    Way {
        agent: "opencode",
        name: "opencode",
        title: "opencode",
        recipe: |home, url| home.opencode(url),
        tool: read,
        tool_says: "beta note",
        asking: "TOUCHTOOL please",
    },
];

fn read(file: &Path) -> String {
    format!("READTOOL FILE={}", file.display())
}

fn run(_: &Path) -> String {
    "SLOWTOOL 0 please".to_string()
}
