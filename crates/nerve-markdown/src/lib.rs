//! Renders the Markdown of agents as HTML that runs and loads nothing.
//!
//! The input is untrusted. Elements come from the Markdown alone: HTML in the text stays visible text, images become links, and a link
//! leads to `http`, `https` or `mailto` only. The page of the web console renders the same structure; `tests/fixtures/cases.json` has the
//! cases that both must fulfil.
//!
//! Supported: headings, paragraphs, fenced and indented code, quotes, lists with tasks, tables, rules; code, strong, emphasis, deleted
//! text, links, images, addresses, character references and escapes (CommonMark 0.31 and the tables of GitHub). Link references and
//! footnotes are shown as they were written. The time is proportional to the size of the text.

mod address;
mod block;
mod emphasis;
mod escape;
mod html;
mod inline;
mod line;

pub use escape::escape;
pub use html::to_html;
