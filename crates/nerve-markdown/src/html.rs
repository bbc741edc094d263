//! Blocks as HTML.

use std::fmt::Write;

use crate::block::list::{Item, List};
use crate::block::table::{Alignment, Table};
use crate::block::{Block, Child, read_blocks};
use crate::escape::escape;
use crate::inline::render_inline;

/// Level of the element for a heading of the first level: the page has its own above.
const FIRST_LEVEL: usize = 3;

/// Renders Markdown as HTML elements for the body of a page.
///
/// They have no scripts, styles or embedded content. Classes: `target` (the address after a link's text), `task` (an item), `plain`
/// (text as it was written), `to-left`, `to-center`, `to-right` (cells), `table`, and `language-NAME` (code).
pub fn to_html(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut out = String::with_capacity(text.len() * 2);
    write_blocks(&mut out, &read_blocks(&lines, 0));
    out
}

fn write_blocks(out: &mut String, children: &[Child<'_>]) {
    children.iter().for_each(|child| write_block(out, &child.block));
}

fn write_block(out: &mut String, block: &Block<'_>) {
    let _ = match block {
        Block::Heading { level, text } => {
            let level = (level + FIRST_LEVEL - 1).min(6);
            writeln!(out, "<h{level}>{}</h{level}>", render_inline(text))
        }
        Block::Paragraph(text) => writeln!(out, "<p>{}</p>", render_inline(text)),
        Block::Code { language, text } => {
            let class = match language {
                &"" => String::new(),
                language => format!(" class=\"language-{}\"", escape(language)),
            };
            writeln!(out, "<pre><code{class}>{}</code></pre>", escape(text))
        }
        Block::Plain(text) => writeln!(out, "<pre class=\"plain\">{}</pre>", escape(text)),
        Block::Quote(children) => {
            out.push_str("<blockquote>\n");
            write_blocks(out, children);
            writeln!(out, "</blockquote>")
        }
        Block::List(list) => {
            write_list(out, list);
            Ok(())
        }
        Block::Table(table) => {
            write_table(out, table);
            Ok(())
        }
        Block::Rule => writeln!(out, "<hr>"),
    };
}

fn write_list(out: &mut String, list: &List<'_>) {
    let (name, start) = match list.start {
        None => ("ul", String::new()),
        Some(1) => ("ol", String::new()),
        Some(start) => ("ol", format!(" start=\"{start}\"")),
    };
    let _ = writeln!(out, "<{name}{start}>");
    list.items.iter().for_each(|item| write_item(out, list, item));
    let _ = writeln!(out, "</{name}>");
}

fn write_item(out: &mut String, list: &List<'_>, item: &Item<'_>) {
    out.push_str(match item.task {
        None => "<li>",
        Some(true) => "<li class=\"task\">☑ ",
        Some(false) => "<li class=\"task\">☐ ",
    });
    for child in &item.children {
        match list.tight_text(&child.block) {
            Some(text) => out.push_str(&render_inline(text)),
            None => write_block(out, &child.block),
        }
    }
    out.push_str("</li>\n");
}

fn write_table(out: &mut String, table: &Table) {
    out.push_str("<div class=\"table\"><table>\n<thead>\n");
    write_row(out, table, "th", &table.head);
    out.push_str("</thead>\n<tbody>\n");
    table.rows.iter().for_each(|row| write_row(out, table, "td", row));
    out.push_str("</tbody>\n</table></div>\n");
}

fn write_row(out: &mut String, table: &Table, name: &str, cells: &[String]) {
    out.push_str("<tr>");
    for (cell, alignment) in cells.iter().zip(&table.alignments) {
        let class = match alignment {
            None => "",
            Some(Alignment::Left) => " class=\"to-left\"",
            Some(Alignment::Center) => " class=\"to-center\"",
            Some(Alignment::Right) => " class=\"to-right\"",
        };
        let _ = write!(out, "<{name}{class}>{}</{name}>", render_inline(cell));
    }
    out.push_str("</tr>\n");
}
