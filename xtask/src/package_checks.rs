//! The step `packages`: packs the debug program, installs every package in a clean folder, and lets each answer a prompt.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::dist::{self, Options, Packages};
use crate::hermetic::Hermetic;
use crate::project::{self, Project};
use crate::report::Outcome;

/// Starts a server of its own with the program that was installed with the client.
const FIRST_TURN: &str = "
from nerve_sdk.paths import program_path
from nerve_sdk.sync import NerveClient
with NerveClient.standalone() as client:
    node = client.create_node('me', command=program_path() + ' mock-agent')
    print(node.execute('Good morning').text)
    node.stop()
";
/// Answer of the scripted agent.
const ANSWER: &str = "You said: Good morning";

/// Installs a package and tries it.
type Check = fn(&Machine, &Packages) -> anyhow::Result<()>;

/// A home without any nerve, in which packages are installed.
struct Machine {
    hermetic: Hermetic,
}

/// Builds the packages and installs them. Without the tools the step is left out; in CI it fails.
pub(crate) fn check(project: &Project) -> anyhow::Result<Outcome> {
    let missing = dist::missing_tools(project);
    if !missing.is_empty() && !project.ci {
        return Ok(Outcome::LeftOut(format!("missing: {}", missing.join(", "))));
    }
    let out = project.target.join("package-checks");
    let options =
        Options { binary: Some(project.nerve()), out: Some(out.clone()), fast: true, ..Options::default() };
    let packages = dist::build(project, &options)?;
    let machine = Machine { hermetic: Hermetic::new("packages")? };
    let checks: [(&str, Check); 4] = [("tarball", tarball), ("deb", deb), ("npm", npm), ("wheel", wheel)];
    let mut failed = Vec::new();
    for (name, check) in checks {
        println!("-- {name}");
        if let Err(error) = check(&machine, &packages) {
            failed.push(format!("{name}: {error:#}"));
        }
    }
    machine.hermetic.kill_processes();
    fs::remove_dir_all(out)?;
    if !failed.is_empty() {
        bail!("{}", failed.join("; "));
    }
    Ok(Outcome::Passed(format!("{} packages", checks.len())))
}

impl Machine {
    /// Creates an empty folder.
    fn folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        let folder = self.hermetic.root().join(name);
        fs::create_dir(&folder)?;
        Ok(folder)
    }

    /// Returns a command with the clean environment, in which `bin` is first in `PATH`.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>, bin: &Path) -> anyhow::Result<Command> {
        let mut command = Command::new(program);
        self.hermetic.apply(&mut command);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::iter::once(bin.to_path_buf()).chain(std::env::split_paths(&path));
        command.env("PATH", std::env::join_paths(path)?).current_dir(self.hermetic.root().join("home"));
        command.stdin(Stdio::null());
        Ok(command)
    }

    /// Lets the `nerve` in `bin` print its version, answer a prompt, and fail with its own exit code.
    fn try_program(&self, bin: &Path) -> anyhow::Result<()> {
        let nerve = |args: &[&str]| -> anyhow::Result<Command> {
            let mut command = self.command(bin.join("nerve"), bin)?;
            command.args(args);
            Ok(command)
        };
        expect(&mut nerve(&["--version"])?, env!("CARGO_PKG_VERSION"))?;
        expect(&mut nerve(&["ask", "-c", "nerve mock-agent", "Good morning"])?, ANSWER)?;
        let status = nerve(&["no-such-command"])?.stderr(Stdio::null()).status()?;
        if status.code() != Some(2) {
            bail!("nerve no-such-command ended with {status}, not with exit code 2");
        }
        Ok(())
    }
}

fn tarball(machine: &Machine, packages: &Packages) -> anyhow::Result<()> {
    let prefix = machine.folder("tarball")?;
    let mut tar = Command::new("tar");
    project::run(
        tar.args(["--strip-components=1", "--directory"]).arg(&prefix).arg("-xf").arg(&packages.tarball),
    )?;
    for file in
        ["share/man/man1/nerve-ask.1", "share/zsh/site-functions/_nerve", "share/doc/nerve/LICENSE-MIT"]
    {
        prefix.join(file).metadata().with_context(|| format!("no {file}"))?;
    }
    machine.try_program(&prefix.join("bin"))
}

fn deb(machine: &Machine, packages: &Packages) -> anyhow::Result<()> {
    let root = machine.folder("deb")?;
    project::run(Command::new("dpkg-deb").arg("--extract").arg(&packages.deb).arg(&root))?;
    let unit = fs::read_to_string(root.join("usr/lib/systemd/user/nerve.service"))?;
    if !unit.contains("\nKillMode=process\n") {
        bail!("the unit stops hosts together with the server");
    }
    machine.try_program(&root.join("usr/bin"))
}

fn npm(machine: &Machine, packages: &Packages) -> anyhow::Result<()> {
    let prefix = machine.folder("npm")?;
    let mut npm = machine.command("npm", &prefix)?;
    npm.args(["install", "--global", "--offline", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"]);
    npm.arg(&prefix).args(&packages.npm).env("npm_config_cache", prefix.join("cache"));
    project::run(&mut npm)?;
    let bin = prefix.join("bin");
    machine.try_program(&bin)?;
    passes_signals(machine, &bin)
}

/// Sends a signal to the launcher, which must pass it on, and kills the program, after which the launcher must end by the same signal.
fn passes_signals(machine: &Machine, bin: &Path) -> anyhow::Result<()> {
    let script = r#"
start() {
    nerve mock-model >out & launcher=$!
    until grep -q http out; do kill -0 $launcher || exit 3; sleep 0.05; done
    program=$(ps -o pid= --ppid $launcher)
}
start; kill -TERM $launcher; wait $launcher; echo "TERM to the launcher: $?"
start; kill -KILL $program; wait $launcher; echo "KILL to the program: $?"
"#;
    let mut bash = machine.command("timeout", bin)?;
    expect(bash.args(["30", "bash", "-c", script]), "TERM to the launcher: 0\nKILL to the program: 137\n")
}

fn wheel(machine: &Machine, packages: &Packages) -> anyhow::Result<()> {
    let folder = machine.folder("venv")?;
    let (bin, pure) = (folder.join("bin"), folder.join("pure"));
    project::run(machine.command("python3", &folder)?.args(["-m", "venv"]).arg(&folder))?;
    let install = |wheel: &Path, options: &[&str]| -> anyhow::Result<()> {
        let mut pip = machine.command(bin.join("python"), &bin)?;
        pip.args(["-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-index"])
            .args(options);
        project::run(pip.arg(wheel))
    };
    install(&packages.platform_wheel, &[])?;
    machine.try_program(&bin)?;
    // The environment's commands are not in PATH here: the client finds its program.
    let mut python = machine.command(bin.join("python"), &folder)?;
    expect(python.args(["-c", FIRST_TURN]), ANSWER)?;
    install(&packages.pure_wheel, &["--target", &pure.to_string_lossy()])?;
    if pure.join("bin").exists() {
        bail!("the pure wheel contains a program");
    }
    Ok(())
}

/// Runs a command and expects a text in its output.
fn expect(command: &mut Command, text: &str) -> anyhow::Result<()> {
    let output = String::from_utf8_lossy(&project::output(command)?).into_owned();
    print!("{output}");
    if !output.contains(text) {
        bail!("a command did not print '{text}'");
    }
    Ok(())
}
