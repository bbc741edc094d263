//! Exports of recordings: a report of lines and snapshots, an asciicast, or an animated image.
//!
//! | file | contents |
//! |---|---|
//! | `items` | the final lines of a session, interleaved with its snapshots |
//! | `report` | these as Markdown, JSON, CSV or text |
//! | `cast` | asciicast v2 and v3, streamed |
//! | `svg` | an animated SVG image |
//! | `markup` | text in XML and HTML |
//! | `utf8` | decoding of output that cuts characters at record boundaries |

mod cast;
mod items;
mod markup;
mod report;
mod svg;
mod utf8;

use std::fmt;
use std::io;
use std::str::FromStr;

pub use cast::{CastOptions, CastVersion, cast};
pub use items::{Item, interleaved};
pub use markup::escape_markup;
pub use report::{ReportFormat, report};
pub use svg::{SvgOptions, svg};

use crate::ahr::AhrError;

/// An export format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The final lines and the snapshots.
    Report(ReportFormat),
    /// All output with times.
    Cast(CastVersion),
    /// An animated image.
    Svg,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 7] = [
        Format::Report(ReportFormat::Md),
        Format::Report(ReportFormat::Json),
        Format::Report(ReportFormat::Csv),
        Format::Report(ReportFormat::Txt),
        Format::Cast(CastVersion::V2),
        Format::Cast(CastVersion::V3),
        Format::Svg,
    ];

    /// Returns the name: `md`, `json`, `csv`, `txt`, `asciicast2`, `asciicast3`, `svg`.
    pub fn as_str(self) -> &'static str {
        match self {
            Format::Report(ReportFormat::Md) => "md",
            Format::Report(ReportFormat::Json) => "json",
            Format::Report(ReportFormat::Csv) => "csv",
            Format::Report(ReportFormat::Txt) => "txt",
            Format::Cast(CastVersion::V2) => "asciicast2",
            Format::Cast(CastVersion::V3) => "asciicast3",
            Format::Svg => "svg",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Format, UnknownFormat> {
        Format::ALL
            .into_iter()
            .find(|format| format.as_str() == name)
            .ok_or_else(|| UnknownFormat(name.into()))
    }
}

/// An unknown format name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown format '{0}'; use md, json, csv, txt, asciicast2, asciicast3, svg")]
pub struct UnknownFormat(String);

/// Reason why an export failed.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The recording cannot be read.
    #[error(transparent)]
    Read(#[from] AhrError),
    /// The result cannot be written.
    #[error("cannot write the export: {0}")]
    Write(#[from] io::Error),
}
