//! Settings, environment and arguments that bring each real agent to a ready prompt without user interaction, against a
//! scripted model on loopback.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use nerve_types::text::hex;
use ring::digest::{SHA256, digest};
use serde_json::json;

use crate::hermetic::{Hermetic, text};

/// A command that starts an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRecipe {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Variables in addition to [`Hermetic::env`].
    pub env: Vec<(String, String)>,
}

/// Claude Code's renderer, which otherwise varies from start to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renderer {
    /// Conversation in the scrollback, with a live area below.
    Classic,
    /// The alternate screen.
    FullScreen,
}

/// Returns the folder of the pinned agents: `NERVE_TEST_AGENTS`, else `target/agents/node_modules/.bin` of the
/// workspace.
pub fn agents_dir() -> PathBuf {
    match std::env::var_os("NERVE_TEST_AGENTS") {
        Some(dir) => dir.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/agents/node_modules/.bin"),
    }
}

/// Returns the program of a pinned agent (`claude`, `codex`, `gemini`, `opencode`, `kilo`, `pi`, `qwen`, `copilot`,
/// `kimi`), if it is installed.
pub fn find_agent(name: &str) -> Option<PathBuf> {
    // Only the directory is resolved, because agents depend on the name of their link.
    let program = agents_dir().canonicalize().ok()?.join(name);
    program.exists().then_some(program)
}

impl Hermetic {
    /// Prepares a command that starts the recipe in `cwd`.
    pub fn recipe_command(&self, recipe: &AgentRecipe, cwd: &Path) -> Command {
        let (program, arguments) = recipe.argv.split_first().map_or(("", &[][..]), |(p, a)| (p.as_str(), a));
        let mut command = self.command(program);
        command.args(arguments).envs(recipe.env.iter().cloned()).current_dir(cwd);
        command
    }

    /// Configures Claude Code for `cwd`: onboarding done, folder trusted, telemetry and updates off.
    ///
    /// # Errors
    /// Its settings cannot be written.
    pub fn claude(&self, cwd: &Path, base_url: &str, renderer: Renderer) -> io::Result<AgentRecipe> {
        let settings = json!({
            "hasCompletedOnboarding": true,
            "projects": { text(cwd): { "hasTrustDialogAccepted": true } },
        });
        self.write_home(".claude.json", &settings.to_string())?;
        let drawing = match renderer {
            Renderer::Classic => "CLAUDE_CODE_DISABLE_ALTERNATE_SCREEN",
            Renderer::FullScreen => "CLAUDE_CODE_NO_FLICKER",
        };
        Ok(recipe(
            "claude",
            &["--permission-mode", "default"],
            &[
                ("ANTHROPIC_BASE_URL", base_url),
                ("ANTHROPIC_AUTH_TOKEN", "dummy"),
                ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
                ("DISABLE_TELEMETRY", "1"),
                ("DISABLE_AUTOUPDATER", "1"),
                ("CLAUDE_CODE_MAX_RETRIES", "1"),
                ("IS_SANDBOX", "1"),
                (drawing, "1"),
            ],
        ))
    }

    /// Configures Gemini CLI.
    ///
    /// # Errors
    /// Its settings cannot be written.
    pub fn gemini(&self, base_url: &str) -> io::Result<AgentRecipe> {
        let settings = json!({
            "security": { "auth": { "selectedType": "gemini-api-key" }, "folderTrust": { "enabled": false } },
            "general": { "enableAutoUpdate": false, "enableAutoUpdateNotification": false, "maxAttempts": 2 },
            "privacy": { "usageStatisticsEnabled": false },
            "model": { "disableLoopDetection": true },
        });
        self.write_home(".gemini/settings.json", &settings.to_string())?;
        Ok(recipe(
            "gemini",
            &["-m", "gemini-2.5-flash"],
            &[
                ("GEMINI_API_KEY", "dummy"),
                ("GOOGLE_GEMINI_BASE_URL", base_url),
                // Otherwise Gemini CLI relaunches itself and leaves the second process behind.
                ("GEMINI_CLI_NO_RELAUNCH", "true"),
            ],
        ))
    }

    /// Configures Codex without its daemon, which would outlive the terminal. It asks before a command leaves its
    /// sandbox.
    ///
    /// # Errors
    /// Its settings cannot be written.
    pub fn codex(&self, base_url: &str, renderer: Renderer) -> io::Result<AgentRecipe> {
        let settings = [
            r#"model = "fake-model""#,
            r#"model_provider = "fake""#,
            r#"approval_policy = "on-request""#,
            "[model_providers.fake]",
            r#"name = "fake""#,
            &format!(r#"base_url = "{base_url}/v1""#),
            r#"wire_api = "responses""#,
            r#"env_key = "FAKE_KEY""#,
            "request_max_retries = 1",
            "stream_max_retries = 1",
            "",
        ]
        .join("\n");
        self.write_home(".codex/config.toml", &settings)?;
        let arguments: &[&str] = match renderer {
            Renderer::Classic => &["--no-daemon", "--no-alt-screen"],
            Renderer::FullScreen => &["--no-daemon"],
        };
        Ok(recipe("codex", arguments, &[("FAKE_KEY", "dummy")]))
    }

    /// Configures opencode.
    ///
    /// # Errors
    /// Its settings cannot be written.
    pub fn opencode(&self, base_url: &str) -> io::Result<AgentRecipe> {
        self.write_home(".config/opencode/opencode.json", &opencode_settings(base_url).to_string())?;
        let env =
            ["OPENCODE_DISABLE_AUTOUPDATE", "OPENCODE_DISABLE_MODELS_FETCH", "OPENCODE_DISABLE_LSP_DOWNLOAD"];
        Ok(recipe("opencode", &[], &env.map(|name| (name, "1"))))
    }

    /// Configures Kilo, without its daemon, telemetry and uploads of sessions.
    ///
    /// # Errors
    /// Its settings cannot be written.
    pub fn kilo(&self, base_url: &str) -> io::Result<AgentRecipe> {
        let mut settings = opencode_settings(base_url);
        settings["enabled_providers"] = json!(["fake"]);
        self.write_home(".config/kilo/kilo.json", &settings.to_string())?;
        let env = [
            ("KILO_TELEMETRY_LEVEL", "off"),
            ("KILO_NO_DAEMON", "1"),
            ("KILO_DISABLE_AUTOUPDATE", "1"),
            ("KILO_DISABLE_LSP_DOWNLOAD", "1"),
            ("KILO_DISABLE_MODELS_FETCH", "1"),
            ("KILO_DISABLE_PRESENCE", "1"),
            ("KILO_DISABLE_SESSION_INGEST", "1"),
        ];
        Ok(recipe("kilo", &[], &env))
    }

    /// Configures pi, which runs tools without permission. It needs node 22, which is installed with the agents.
    ///
    /// # Errors
    /// Its settings cannot be written.
    pub fn pi(&self, base_url: &str) -> io::Result<AgentRecipe> {
        let models = json!({ "providers": { "fake": {
            "baseUrl": format!("{base_url}/v1"),
            "api": "openai-completions",
            "apiKey": "dummy",
            "models": [{ "id": "fake-model" }],
        } } });
        let settings = json!({
            "defaultProvider": "fake",
            "defaultModel": "fake-model",
            "quietStartup": true,
            "retry": { "maxRetries": 1, "baseDelayMs": 100 },
        });
        self.write_home(".pi/agent/models.json", &models.to_string())?;
        self.write_home(".pi/agent/settings.json", &settings.to_string())?;
        let path = path_with_node();
        let env =
            [("PI_OFFLINE", "1"), ("PI_SKIP_VERSION_CHECK", "1"), ("PI_TELEMETRY", "0"), ("PATH", &path)];
        Ok(recipe("pi", &[], &env))
    }

    /// Configures Qwen Code in the normal screen, asking for permissions. It needs node 22, which is installed with the
    /// agents.
    ///
    /// # Errors
    /// Its settings cannot be written.
    pub fn qwen(&self, base_url: &str) -> io::Result<AgentRecipe> {
        let settings = json!({
            "security": { "auth": { "selectedType": "openai" }, "folderTrust": { "enabled": false } },
            "general": { "enableAutoUpdate": false },
            "privacy": { "usageStatisticsEnabled": false },
            "telemetry": { "enabled": false },
            "model": { "name": "fake-model" },
            // Otherwise it sends requests with tools of its own after each turn.
            "memory": { "enableManagedAutoMemory": false, "enableManagedAutoDream": false },
            "ui": { "useTerminalBuffer": false, "enableFollowupSuggestions": false },
            "tools": { "approvalMode": "default" },
        });
        self.write_home(".qwen/settings.json", &settings.to_string())?;
        let url = format!("{base_url}/v1");
        let path = path_with_node();
        let env = [
            ("OPENAI_API_KEY", "dummy"),
            ("OPENAI_BASE_URL", &url),
            ("OPENAI_MODEL", "fake-model"),
            ("PATH", &path),
        ];
        Ok(recipe("qwen", &[], &env))
    }

    /// Configures GitHub Copilot CLI for `cwd`: folder trusted, no account, no network except the model. Its program unpacks
    /// 235 MB, once for all homes.
    ///
    /// # Errors
    /// Its settings cannot be written.
    pub fn copilot(&self, cwd: &Path, base_url: &str) -> io::Result<AgentRecipe> {
        let state = json!({ "trustedFolders": [text(cwd)] });
        let settings = json!({
            "banner": "never",
            "showTipsOnStartup": false,
            "memory": false,
            // On a busy machine it waits for a minute.
            "ide": { "autoConnect": false },
        });
        self.write_home(".copilot/config.json", &state.to_string())?;
        self.write_home(".copilot/settings.json", &settings.to_string())?;
        let (url, unpacked) = (format!("{base_url}/v1"), agents_dir().with_file_name(".cache"));
        let env = [
            ("COPILOT_OFFLINE", "true"),
            ("COPILOT_AUTO_UPDATE", "false"),
            ("COPILOT_PROVIDER_TYPE", "openai"),
            ("COPILOT_PROVIDER_BASE_URL", &url),
            ("COPILOT_PROVIDER_API_KEY", "dummy"),
            ("COPILOT_MODEL", "fake-model"),
            ("COPILOT_PROVIDER_MAX_PROMPT_TOKENS", "128000"),
            ("COPILOT_PROVIDER_MAX_OUTPUT_TOKENS", "8192"),
            ("COPILOT_PKG_CACHE_HOME", &text(&unpacked)),
        ];
        Ok(recipe("copilot", &[], &env))
    }

    /// Configures Kimi Code for `cwd`: folder trusted, no network except the model. It needs node 22, which is installed with
    /// the agents.
    ///
    /// # Errors
    /// Its settings cannot be written.
    pub fn kimi(&self, cwd: &Path, base_url: &str) -> io::Result<AgentRecipe> {
        let settings = [
            r#"default_model = "fake""#,
            "telemetry = false",
            "[loop_control]",
            "max_attempts_per_step = 2",
            "[providers.fake]",
            r#"type = "openai""#,
            &format!(r#"base_url = "{base_url}/v1""#),
            r#"api_key = "dummy""#,
            "[models.fake]",
            r#"provider = "fake""#,
            r#"model = "fake-model""#,
            "max_context_size = 128000",
            "",
        ];
        self.write_home(".kimi-code/config.toml", &settings.join("\n"))?;
        self.write_home(
            ".kimi-code/tui.toml",
            "disable_feedback_survey = true\n[upgrade]\nauto_install = false\n",
        )?;
        let folder = cwd.canonicalize()?;
        let trust = json!({ "root": text(&folder), "trustedAt": 1 });
        self.write_home(
            &format!(".kimi-code/workspace-trust/{}", kimi_workspace(&folder)),
            &trust.to_string(),
        )?;
        let path = path_with_node();
        let env = [("KIMI_CODE_NO_AUTO_UPDATE", "1"), ("KIMI_DISABLE_TELEMETRY", "1"), ("PATH", &path)];
        Ok(recipe("kimi", &[], &env))
    }
}

/// Returns Kimi Code's name of a folder with a plain name.
fn kimi_workspace(folder: &Path) -> String {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let hash = hex(digest(&SHA256, folder.as_os_str().as_encoded_bytes()).as_ref());
    format!("wd_{name}_{}", &hash[..12])
}

/// Returns settings that opencode and Kilo share: the scripted model as their only provider, and permissions on request.
fn opencode_settings(base_url: &str) -> serde_json::Value {
    json!({
        "autoupdate": false,
        "share": "disabled",
        // On a busy machine the first snapshot takes long, and Kilo then opens a dialog about it.
        "snapshot": false,
        "model": "fake/fake-model",
        "small_model": "fake/fake-model",
        "provider": { "fake": {
            "npm": "@ai-sdk/openai-compatible",
            "name": "fake",
            "options": { "baseURL": format!("{base_url}/v1"), "apiKey": "dummy" },
            "models": { "fake-model": {
                "name": "fake-model",
                "tool_call": true,
                "limit": { "context": 200_000, "output": 8192 },
            } },
        } },
        "permission": { "bash": "ask", "edit": "ask" },
    })
}

/// Returns PATH with the node of the agents in front.
fn path_with_node() -> String {
    format!("{}:{}", text(&agents_dir()), std::env::var("PATH").unwrap_or_default())
}

/// Creates a recipe. A missing agent keeps its bare name, so that the error names it.
fn recipe(program: &str, arguments: &[&str], env: &[(&str, &str)]) -> AgentRecipe {
    let program = find_agent(program).map_or_else(|| program.to_owned(), |path| text(&path));
    AgentRecipe {
        argv: std::iter::once(program).chain(arguments.iter().map(|&argument| argument.to_owned())).collect(),
        env: env.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json_of(hermetic: &Hermetic, path: &str) -> serde_json::Value {
        serde_json::from_str(&std::fs::read_to_string(hermetic.home().join(path)).unwrap()).unwrap()
    }

    #[test]
    fn claude_trusts_the_folder_and_its_renderer_is_pinned() {
        let hermetic = Hermetic::new().unwrap();
        let recipe = hermetic.claude(Path::new("/a/b"), "http://127.0.0.1:1", Renderer::Classic).unwrap();
        assert!(recipe.argv[0].ends_with("claude"));
        assert!(recipe.env.contains(&("CLAUDE_CODE_DISABLE_ALTERNATE_SCREEN".into(), "1".into())));
        assert!(recipe.env.contains(&("ANTHROPIC_BASE_URL".into(), "http://127.0.0.1:1".into())));
        assert_eq!(json_of(&hermetic, ".claude.json")["projects"]["/a/b"]["hasTrustDialogAccepted"], true);
    }

    #[test]
    fn the_others_find_their_model() {
        let hermetic = Hermetic::new().unwrap();
        hermetic.opencode("http://x").unwrap();
        let settings = json_of(&hermetic, ".config/opencode/opencode.json");
        assert_eq!(settings["provider"]["fake"]["options"]["baseURL"], "http://x/v1");
        let kilo = hermetic.kilo("http://x").unwrap();
        assert_eq!(json_of(&hermetic, ".config/kilo/kilo.json")["provider"], settings["provider"]);
        assert!(kilo.env.contains(&("KILO_NO_DAEMON".into(), "1".into())));
        hermetic.codex("http://x", Renderer::Classic).unwrap();
        let config = std::fs::read_to_string(hermetic.home().join(".codex/config.toml")).unwrap();
        assert!(config.contains("base_url = \"http://x/v1\""));
        let pi = hermetic.pi("http://x").unwrap();
        let models = json_of(&hermetic, ".pi/agent/models.json");
        assert_eq!(models["providers"]["fake"]["baseUrl"], "http://x/v1");
        assert!(pi.env.contains(&("PI_OFFLINE".into(), "1".into())));
        let qwen = hermetic.qwen("http://x").unwrap();
        assert!(qwen.env.contains(&("OPENAI_BASE_URL".into(), "http://x/v1".into())));
        let copilot = hermetic.copilot(Path::new("/a/b"), "http://x").unwrap();
        assert!(copilot.env.contains(&("COPILOT_PROVIDER_BASE_URL".into(), "http://x/v1".into())));
        assert_eq!(json_of(&hermetic, ".copilot/config.json")["trustedFolders"], json!(["/a/b"]));
        hermetic.kimi(&hermetic.work(), "http://x").unwrap();
        let config = std::fs::read_to_string(hermetic.home().join(".kimi-code/config.toml")).unwrap();
        assert!(config.contains("base_url = \"http://x/v1\""));
        let gemini = hermetic.gemini("http://x").unwrap();
        assert!(gemini.env.contains(&("GOOGLE_GEMINI_BASE_URL".into(), "http://x".into())));
    }

    #[test]
    fn workspaces_of_kimi_have_their_names() {
        assert_eq!(kimi_workspace(Path::new("/home/me/projects")), "wd_projects_53d41bb994cb");
    }

    #[test]
    fn a_recipe_starts_in_its_folder_with_both_environments() {
        let hermetic = Hermetic::new().unwrap();
        let recipe = AgentRecipe {
            argv: vec!["sh".into(), "-c".into(), "echo $PWD $X $LANG".into()],
            env: vec![("X".into(), "1".into())],
        };
        let output = hermetic.recipe_command(&recipe, Path::new("/")).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "/ 1 C.UTF-8\n");
    }
}
