//! Runs the shell blocks of README.md and of the pages in docs/.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::project::Project;
use crate::report::Outcome;
use crate::shell_scripts::{self, Script};

/// A fenced `sh` block.
#[derive(Debug, Default, PartialEq, Eq)]
struct Block {
    /// 1-based line of its first command.
    line: usize,
    text: String,
    /// Reason not to run it, from a comment `<!-- not run: reason -->` above it.
    not_run: Option<String>,
    /// True if it builds the program, from a comment `<!-- builds: nerve -->` above it.
    builds: bool,
    /// Commands that readers do not see, from comments `<!-- before: command -->` above it.
    before: Vec<String>,
    /// Texts that it must print, from comments `<!-- prints: text -->` above it.
    prints: Vec<String>,
}

/// Options of `cargo xtask blocks`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    /// The program, already built. Blocks that build it are left out.
    program: Option<PathBuf>,
    /// Pages, relative to the checkout. Empty: all pages.
    pages: Vec<String>,
}

/// The page that builds the program, so it is run first and in the checkout.
const README: &str = "README.md";

/// Time limits in seconds of README.md, which may build the release, and of the other pages.
const LIMITS: (u32, u32) = (1800, 180);

/// Commands before the blocks of a page in docs/. The built-in agent stands in for Claude Code, so that pages can show the commands that
/// readers type. The folder is not the checkout, where the end of an agent would leave a snapshot of the files.
const SETUP: &str = r#"mkdir "$HOME/bin" "$HOME/project"
printf '#!/bin/sh\nexec nerve mock-agent "$@"\n' >"$HOME/bin/claude"
chmod +x "$HOME/bin/claude"
export PATH="$HOME/bin:$PATH"
cd "$HOME/project"
"#;

/// Runs the blocks of all pages with the release.
pub(crate) fn check(project: &Project) -> anyhow::Result<Outcome> {
    check_pages(project, &Options::default())
}

/// Runs `cargo xtask blocks [--program FILE] [PAGE …]`.
pub(crate) fn run(project: &Project, args: &[String]) -> anyhow::Result<bool> {
    if let Outcome::Passed(detail) = check_pages(project, &Options::parse(args)?)? {
        println!("{detail}");
    }
    Ok(true)
}

impl Options {
    fn parse(args: &[String]) -> anyhow::Result<Options> {
        let mut options = Options::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--program" => {
                    let file = args.next().context("--program needs a file")?;
                    options.program =
                        Some(fs::canonicalize(file).with_context(|| format!("no file {file}"))?);
                }
                option if option.starts_with('-') => bail!("unknown option '{option}'; there is --program"),
                page => options.pages.push(page.to_string()),
            }
        }
        Ok(options)
    }
}

/// Runs the blocks of each page in one shell, one after another, as a reader would type them. A failed page does not prevent the others.
fn check_pages(project: &Project, options: &Options) -> anyhow::Result<Outcome> {
    let pages = if options.pages.is_empty() { pages(&project.root)? } else { options.pages.clone() };
    let (mut run, mut total, mut count) = (0, 0, 0);
    let mut failed = Vec::new();
    for page in &pages {
        let text =
            fs::read_to_string(project.root.join(page)).with_context(|| format!("cannot read {page}"))?;
        let blocks = blocks(&text).with_context(|| page.clone())?;
        total += blocks.len();
        match run_page(project, options, page, &blocks) {
            Ok(0) => {}
            Ok(tried) => (run, count) = (run + tried, count + 1),
            Err(error) => failed.push(format!("{error:#}")),
        }
    }
    if !failed.is_empty() {
        bail!("{}", failed.join("; "));
    }
    Ok(Outcome::Passed(format!("{run} blocks of {count} pages run, {} not run", total - run)))
}

/// Returns README.md and the pages in docs/ and its folders, by name.
fn pages(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut pages = Vec::new();
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path.strip_prefix(root)?.to_string_lossy().into_owned());
            }
        }
    }
    pages.sort();
    pages.insert(0, README.to_string());
    Ok(pages)
}

/// Runs the blocks of a page and returns their number.
fn run_page(project: &Project, options: &Options, page: &str, blocks: &[Block]) -> anyhow::Result<usize> {
    let mut tried = 0;
    let mut commands = String::new();
    let mut prints = Vec::new();
    for block in blocks {
        let built = (block.builds && options.program.is_some()).then(|| "--program".to_string());
        if let Some(reason) = block.not_run.as_ref().or(built.as_ref()) {
            println!("{page}:{} not run: {reason}", block.line);
            continue;
        }
        tried += 1;
        prints.extend(block.prints.iter().cloned());
        let before: String = block.before.iter().map(|command| format!("{command}\n")).collect();
        commands += &format!("{before}echo '-- {page}:{}' >&2\n{}", block.line, block.text);
    }
    if tried == 0 {
        return Ok(0);
    }
    let is_readme = page == README;
    let program = options.program.clone().unwrap_or_else(|| project.target.join("release/nerve"));
    let stem = Path::new(page).file_stem().unwrap_or_default().to_string_lossy().to_lowercase();
    shell_scripts::run(
        project,
        &Script {
            name: &stem,
            commands: &if is_readme { commands } else { format!("{SETUP}{commands}") },
            bin: program.parent().unwrap_or(&project.root),
            limit_seconds: if is_readme { LIMITS.0 } else { LIMITS.1 },
            prints: &prints,
        },
    )
    .with_context(|| page.to_string())?;
    Ok(tried)
}

/// Returns the `sh` blocks of a Markdown text. A comment applies to the next block.
fn blocks(markdown: &str) -> anyhow::Result<Vec<Block>> {
    let mut blocks = Vec::new();
    let mut next = Block::default();
    let mut open: Option<Block> = None;
    let mut other_fence = false;
    for (index, line) in markdown.lines().enumerate() {
        if let Some(block) = &mut open {
            if line.trim_end() == "```" {
                blocks.extend(open.take());
            } else {
                block.text.push_str(line);
                block.text.push('\n');
            }
        } else if line.starts_with("```") {
            let block = std::mem::take(&mut next);
            if !other_fence && line.trim_end() == "```sh" {
                open = Some(Block { line: index + 2, ..block });
            } else {
                other_fence = !other_fence;
            }
        } else if let Some(reason) = comment(line, "not run") {
            next.not_run = Some(reason);
        } else if let Some(text) = comment(line, "prints") {
            next.prints.push(text);
        } else if let Some(command) = comment(line, "before") {
            next.before.push(command);
        } else if comment(line, "builds").is_some() {
            next.builds = true;
        } else if !line.trim().is_empty() {
            next = Block::default();
        }
    }
    if let Some(block) = open {
        bail!("the block at line {} has no end", block.line);
    }
    Ok(blocks)
}

/// Returns the text of a line `<!-- name: text -->`.
fn comment(line: &str, name: &str) -> Option<String> {
    let text = line.trim().strip_prefix("<!--")?.strip_suffix("-->")?;
    Some(text.trim().strip_prefix(name)?.strip_prefix(':')?.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_sh_blocks_and_their_reasons() {
        let markdown = "# T\n```sh\na\nb\n```\ntext\n```text\n```\n<!-- not run: needs a key -->\n\n```sh\nc\n```\n\
            <!-- not run: too far away -->\nwords between\n```sh\nd\n```\n";
        let block = |line, text: &str, not_run: Option<&str>| Block {
            line,
            text: text.to_string(),
            not_run: not_run.map(str::to_string),
            ..Block::default()
        };
        assert_eq!(
            blocks(markdown).unwrap(),
            [block(3, "a\nb\n", None), block(12, "c\n", Some("needs a key")), block(17, "d\n", None)]
        );
    }

    #[test]
    fn comments_apply_to_next_block() {
        let markdown = "<!-- prints: one -->\n<!-- prints: two words -->\n<!-- before: x y -->\n\
            <!-- builds: nerve -->\n```sh\na\n```\n```sh\nb\n```\n";
        let blocks = blocks(markdown).unwrap();
        assert_eq!(blocks[0].prints, ["one", "two words"]);
        assert_eq!(blocks[0].before, ["x y"]);
        assert!(blocks[0].builds);
        assert_eq!(blocks[1], Block { line: 9, text: "b\n".to_string(), ..Block::default() });
    }

    #[test]
    fn finds_pages_of_this_checkout() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let pages = pages(&root).unwrap();
        assert_eq!(pages[0], README);
        assert!(pages.contains(&"docs/tutorial.md".to_string()));
        for page in pages {
            blocks(&fs::read_to_string(root.join(&page)).unwrap()).unwrap();
        }
    }

    #[test]
    fn parses_options() {
        let parse =
            |args: &[&str]| Options::parse(&args.iter().map(|arg| (*arg).to_string()).collect::<Vec<_>>());
        assert_eq!(parse(&[]).unwrap(), Options::default());
        let options = parse(&["docs/a.md", "--program", "/bin/sh"]).unwrap();
        assert_eq!(options.pages, ["docs/a.md"]);
        assert!(options.program.is_some());
        assert!(parse(&["--fast"]).unwrap_err().to_string().contains("--fast"));
    }

    #[test]
    fn unclosed_block_is_an_error() {
        assert!(blocks("```sh\nls\n").is_err());
    }
}
