//! The agents with their renderers.

use std::io;
use std::path::Path;

use nerve_testkit::{AgentRecipe, Hermetic, Renderer};

/// An agent with one of its renderers.
#[derive(Debug)]
pub(crate) struct Variant {
    /// Name of the program.
    pub(crate) agent: &'static str,
    /// Identifier, such as `codex-inline`.
    pub(crate) name: &'static str,
    /// Display name.
    pub(crate) title: &'static str,
    /// Creates the command line and environment.
    pub(crate) recipe: fn(&Hermetic, &str) -> io::Result<AgentRecipe>,
    /// Returns a prompt that uses a tool without permission, given the path of `notes.txt`.
    pub(crate) tool: fn(&Path) -> String,
    /// Text in the result of that tool.
    pub(crate) tool_result: &'static str,
    /// Prompt that requests a permission to create `made-by-tool.txt`; `None` if the agent requests no permissions.
    pub(crate) permission_prompt: Option<&'static str>,
    /// Keys that leave the idle agent, repeated twice a second.
    pub(crate) exit_keys: &'static str,
    /// True if the conversation stays in the scrollback.
    pub(crate) is_inline: bool,
    /// Memory of one running agent.
    pub(crate) memory_mib: usize,
}

/// Session id of Gemini CLI: its session file is found by the id.
pub(super) const GEMINI_SESSION: &str = "3b3b7ccf-0d2b-4c9e-8a65-1f0f5a3c9d11";

/// An agent that has a tool to read files, and requests permission for a command.
const READER: Variant = Variant {
    agent: "",
    name: "",
    title: "",
    recipe: |_, _| Err(io::ErrorKind::Unsupported.into()),
    tool: read,
    tool_result: "beta note",
    permission_prompt: Some("TOUCHTOOL please"),
    exit_keys: CTRL_C,
    is_inline: false,
    memory_mib: 0,
};

/// All variants, in the order of the table.
pub(crate) const VARIANTS: [Variant; 11] = [
    Variant {
        agent: "claude",
        name: "claude-classic",
        title: "Claude Code, classic",
        recipe: |home, url| home.claude(&home.work(), url, Renderer::Classic),
        is_inline: true,
        memory_mib: 250,
        ..READER
    },
    Variant {
        agent: "claude",
        name: "claude-full-screen",
        title: "Claude Code, full screen",
        recipe: |home, url| home.claude(&home.work(), url, Renderer::FullScreen),
        is_inline: false,
        memory_mib: 250,
        ..READER
    },
    Variant {
        agent: "codex",
        name: "codex",
        title: "Codex, alternate screen",
        recipe: |home, url| home.codex(url, Renderer::FullScreen),
        // Codex has no tool to read files, and requests permission only outside its sandbox.
        tool: run,
        tool_result: "slept",
        permission_prompt: Some("ESCTOOL please"),
        is_inline: false,
        memory_mib: 220,
        ..READER
    },
    Variant {
        agent: "codex",
        name: "codex-inline",
        title: "Codex, `--no-alt-screen`",
        recipe: |home, url| home.codex(url, Renderer::Classic),
        tool: run,
        tool_result: "slept",
        permission_prompt: Some("ESCTOOL please"),
        is_inline: true,
        memory_mib: 220,
        ..READER
    },
    Variant {
        agent: "gemini",
        name: "gemini",
        title: "Gemini CLI",
        recipe: |home, url| {
            let mut recipe = home.gemini(url)?;
            recipe.argv.extend(["--session-id", GEMINI_SESSION].map(String::from));
            Ok(recipe)
        },
        is_inline: true,
        memory_mib: 400,
        ..READER
    },
    Variant {
        agent: "opencode",
        name: "opencode",
        title: "opencode",
        recipe: |home, url| home.opencode(url),
        is_inline: false,
        memory_mib: 1000,
        ..READER
    },
    Variant {
        agent: "kilo",
        name: "kilo",
        title: "Kilo",
        recipe: |home, url| home.kilo(url),
        is_inline: false,
        memory_mib: 1000,
        ..READER
    },
    Variant {
        agent: "pi",
        name: "pi",
        title: "pi",
        recipe: |home, url| home.pi(url),
        permission_prompt: None,
        // A second Ctrl+C leaves only within half a second.
        exit_keys: "\x04",
        is_inline: false,
        memory_mib: 200,
        ..READER
    },
    Variant {
        agent: "qwen",
        name: "qwen",
        title: "Qwen Code",
        recipe: |home, url| home.qwen(url),
        is_inline: true,
        memory_mib: 400,
        ..READER
    },
    Variant {
        agent: "copilot",
        name: "copilot",
        title: "GitHub Copilot CLI",
        recipe: |home, url| home.copilot(&home.work(), url),
        is_inline: false,
        memory_mib: 400,
        ..READER
    },
    Variant {
        agent: "kimi",
        name: "kimi",
        title: "Kimi Code",
        recipe: |home, url| home.kimi(&home.work(), url),
        tool: read,
        tool_result: "beta note",
        permission_prompt: Some("TOUCHTOOL please"),
        exit_keys: CTRL_C,
        is_inline: true,
        memory_mib: 400,
    },
];

const CTRL_C: &str = "\x03";

fn read(file: &Path) -> String {
    format!("READTOOL FILE={}", file.display())
}

fn run(_: &Path) -> String {
    "SLOWTOOL 0 please".to_string()
}
