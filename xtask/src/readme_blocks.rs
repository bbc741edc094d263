//! Runs the shell blocks of README.md and of pages in docs/.

use std::fs;

use anyhow::{Context, bail};

use crate::project::Project;
use crate::report::Outcome;
use crate::shell_scripts;

/// A fenced `sh` block.
#[derive(Debug, Default, PartialEq, Eq)]
struct Block {
    /// 1-based line of its first command.
    line: usize,
    text: String,
    /// Reason not to run it, from a comment `<!-- not run: reason -->` above it.
    not_run: Option<String>,
    /// Texts that it must print, from comments `<!-- prints: text -->` above it.
    prints: Vec<String>,
}

/// A page whose blocks are run.
struct Page {
    /// Path in the checkout.
    path: &'static str,
    /// Name of its script.
    name: &'static str,
    /// Commands before its blocks.
    setup: &'static str,
}

/// Pages in the order in which they are run: the first block of README.md builds the program.
const PAGES: [Page; 2] = [
    Page { path: "README.md", name: "readme", setup: "" },
    // Not in the checkout, where the end of an agent would leave a snapshot of the files.
    Page { path: "docs/migrating.md", name: "migrating", setup: "cd \"$HOME\"\n" },
];

/// Runs the blocks of each page in one shell, one after another, as a reader would type them.
pub(crate) fn check(project: &Project) -> anyhow::Result<Outcome> {
    let (mut run, mut all) = (0, 0);
    for page in &PAGES {
        let text = fs::read_to_string(project.root.join(page.path))
            .with_context(|| format!("cannot read {}", page.path))?;
        let blocks = blocks(&text)?;
        run += run_page(project, page, &blocks)?;
        all += blocks.len();
    }
    Ok(Outcome::Passed(format!("{run} blocks run, {} not run", all - run)))
}

/// Runs the blocks of a page and returns their number.
fn run_page(project: &Project, page: &Page, blocks: &[Block]) -> anyhow::Result<usize> {
    let mut script = page.setup.to_string();
    let mut tried = 0;
    let mut prints = Vec::new();
    for block in blocks {
        match &block.not_run {
            Some(reason) => println!("{}:{} not run: {reason}", page.path, block.line),
            None => {
                tried += 1;
                prints.extend(block.prints.iter().cloned());
                script += &format!("echo '-- {}:{}' >&2\n{}", page.path, block.line, block.text);
            }
        }
    }
    if tried == 0 {
        bail!("{} has no block that can be run", page.path);
    }
    shell_scripts::run(project, page.name, &script, &project.target.join("release"), &prints)?;
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
            prints: Vec::new(),
        };
        assert_eq!(
            blocks(markdown).unwrap(),
            [block(3, "a\nb\n", None), block(12, "c\n", Some("needs a key")), block(17, "d\n", None)]
        );
    }

    #[test]
    fn prints_comments_apply_to_next_block() {
        let markdown = "<!-- prints: one -->\n<!-- prints: two words -->\n```sh\na\n```\n```sh\nb\n```\n";
        let prints: Vec<Vec<String>> =
            blocks(markdown).unwrap().into_iter().map(|block| block.prints).collect();
        assert_eq!(prints, [vec!["one".to_string(), "two words".to_string()], vec![]]);
    }

    #[test]
    fn all_pages_have_blocks_to_run() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for page in &PAGES {
            let text = fs::read_to_string(root.join(page.path)).unwrap();
            assert!(blocks(&text).unwrap().iter().any(|block| block.not_run.is_none()), "{}", page.path);
        }
    }

    #[test]
    fn unclosed_block_is_an_error() {
        assert!(blocks("```sh\nls\n").is_err());
    }
}
