//! Compact store of rows that have left the screen: text and renditions, bounded in rows and bytes. Row numbers are
//! absolute.
//!
//! Rows are records in chunks of 64 KiB, written once and never moved. The oldest rows are evicted first: single rows
//! at the row limit, whole chunks at the byte limit. A row of 120 plain columns costs 122.25 bytes.

use std::collections::VecDeque;

use crate::screen::{Color, Link, Style, Underline};
use crate::terminal::line::{Line, Rendition, Span};

/// Capacity of a chunk in bytes. A larger record gets a chunk of its own.
const CHUNK: usize = 64 * 1024;
/// Number of rows between two entries of a chunk's offset index.
const STRIDE: usize = 16;

/// Stores rows that have left the screen.
#[derive(Debug)]
pub struct Store {
    chunks: VecDeque<Chunk>,
    first: u64,
    end: u64,
    bytes: usize,
    max_rows: u64,
    max_bytes: usize,
}

#[derive(Debug)]
struct Chunk {
    first_row: u64,
    rows: u64,
    records: Vec<u8>,
    index: Vec<u32>,
}

impl Default for Store {
    /// One million rows, 256 MiB.
    fn default() -> Store {
        Store::new(1_000_000, 256 << 20)
    }
}

impl Store {
    /// Creates a store of at most `max_rows` rows (at least 1) and about `max_bytes` bytes (at least two chunks of 64
    /// KiB).
    pub fn new(max_rows: u64, max_bytes: usize) -> Store {
        let (max_rows, max_bytes) = (max_rows.max(1), max_bytes.max(2 * CHUNK));
        Store { chunks: VecDeque::new(), first: 0, end: 0, bytes: 0, max_rows, max_bytes }
    }

    /// Sets new limits, effective at once; see [`Store::new`].
    pub fn set_limits(&mut self, max_rows: u64, max_bytes: usize) {
        self.max_rows = max_rows.max(1);
        self.max_bytes = max_bytes.max(2 * CHUNK);
        self.evict();
    }

    /// Returns the number of the oldest stored row; equals [`Store::end`] if the store is empty.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Returns the number of the next row: the count of all rows ever stored. Never decreases.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Returns the approximate memory in bytes.
    pub fn memory(&self) -> usize {
        self.bytes
    }

    /// Removes all rows; the numbering continues.
    pub fn clear(&mut self) {
        self.chunks.clear();
        self.bytes = 0;
        self.first = self.end;
    }

    /// Removes all rows and sets the number of the next one.
    pub(crate) fn number_from(&mut self, next: u64) {
        self.clear();
        (self.first, self.end) = (next, next);
    }

    /// Adds a row.
    pub fn push(&mut self, line: &Line) {
        let need = record_bound(line);
        if self.chunks.back().is_none_or(|chunk| chunk.records.len() + need > CHUNK) {
            self.open_chunk(need);
        }
        let Some(chunk) = self.chunks.back_mut() else { return };
        if (chunk.rows as usize).is_multiple_of(STRIDE) {
            let old_capacity = chunk.index.capacity();
            chunk.index.push(chunk.records.len() as u32);
            self.bytes += (chunk.index.capacity() - old_capacity) * size_of::<u32>();
        }
        encode(line, &mut chunk.records);
        chunk.rows += 1;
        self.end += 1;
        if self.end - self.first > self.max_rows || self.bytes > self.max_bytes {
            self.evict();
        }
    }

    /// Reads row `number` into `line`. Returns false and clears `line` if the row is not stored.
    pub fn read(&self, number: u64, line: &mut Line) -> bool {
        line.clear();
        self.record(number).and_then(|record| decode(record, line)).is_some()
    }

    /// Returns true if row `number` is stored and continues in the next one.
    pub fn is_wrapped(&self, number: u64) -> bool {
        self.record(number).and_then(|mut record| varint(&mut record)).is_some_and(|head| head & WRAPPED != 0)
    }

    /// Returns the bytes from the beginning of row `number`'s record on.
    fn record(&self, number: u64) -> Option<&[u8]> {
        if number < self.first || number >= self.end {
            return None;
        }
        let at = self.chunks.partition_point(|chunk| chunk.first_row + chunk.rows <= number);
        let chunk = self.chunks.get(at)?;
        let nth = usize::try_from(number.checked_sub(chunk.first_row)?).ok()?;
        let mut rest = chunk.records.get(*chunk.index.get(nth / STRIDE)? as usize..)?;
        for _ in 0..nth % STRIDE {
            skip(&mut rest)?;
        }
        Some(rest)
    }

    fn open_chunk(&mut self, need: usize) {
        if let Some(last) = self.chunks.back_mut() {
            let before = last.records.capacity() + last.index.capacity() * size_of::<u32>();
            last.records.shrink_to_fit();
            last.index.shrink_to_fit();
            let after = last.records.capacity() + last.index.capacity() * size_of::<u32>();
            self.bytes -= before - after;
        }
        let records = Vec::with_capacity(need.max(CHUNK));
        self.bytes += records.capacity() + size_of::<Chunk>();
        self.chunks.push_back(Chunk { first_row: self.end, rows: 0, records, index: Vec::new() });
    }

    fn evict(&mut self) {
        self.first = self.first.max(self.end.saturating_sub(self.max_rows));
        while self.chunks.len() > 1 {
            let Some(front) = self.chunks.front() else { break };
            let front_end = front.first_row + front.rows;
            if front_end > self.first && self.bytes <= self.max_bytes {
                break;
            }
            self.first = self.first.max(front_end);
            let memory = front.records.capacity() + front.index.capacity() * size_of::<u32>();
            self.bytes -= memory + size_of::<Chunk>();
            self.chunks.pop_front();
        }
    }
}

// A record: varint(text length << 3 | flags), [varint length of the part after the text, if STYLED], text, and if
// STYLED: varint spans, each varint(cols << 1 | bytes differ) [varint bytes] rendition; varint links, each varint
// length + bytes for id and uri.
const WRAPPED: u64 = 1;
const STYLED: u64 = 2;

/// Returns an upper bound of a line's record length: 11 bytes of heads, 31 a span, 20 a link.
fn record_bound(line: &Line) -> usize {
    let links: usize = line.links.iter().map(|link| link.id.len() + link.uri.len() + 20).sum();
    line.text.len() + 31 * line.spans.len() + links + 40
}

fn encode(line: &Line, out: &mut Vec<u8>) {
    let styled = if line.spans.is_empty() { 0 } else { STYLED };
    put_varint(out, (line.text.len() as u64) << 3 | styled | u64::from(line.wrapped));
    if styled == 0 {
        out.extend_from_slice(line.text.as_bytes());
        return;
    }
    let mut tail = Vec::with_capacity(8 * line.spans.len() + 8);
    put_varint(&mut tail, line.spans.len() as u64);
    for span in &line.spans {
        let differ = u64::from(u32::from(span.cols) != span.bytes);
        put_varint(&mut tail, u64::from(span.cols) << 1 | differ);
        if differ != 0 {
            put_varint(&mut tail, u64::from(span.bytes));
        }
        encode_rendition(&span.rendition, &mut tail);
    }
    put_varint(&mut tail, line.links.len() as u64);
    for text in line.links.iter().flat_map(|link| [&link.id, &link.uri]) {
        put_varint(&mut tail, text.len() as u64);
        tail.extend_from_slice(text.as_bytes());
    }
    put_varint(out, tail.len() as u64);
    out.extend_from_slice(line.text.as_bytes());
    out.extend_from_slice(&tail);
}

fn decode(mut rest: &[u8], line: &mut Line) -> Option<()> {
    let head = varint(&mut rest)?;
    line.wrapped = head & WRAPPED != 0;
    let styled = head & STYLED != 0;
    if styled {
        varint(&mut rest)?;
    }
    line.text.push_str(take_str(&mut rest, head >> 3)?);
    if !styled {
        return Some(());
    }
    for _ in 0..varint(&mut rest)? {
        let cols = varint(&mut rest)?;
        let bytes = if cols & 1 != 0 { varint(&mut rest)? } else { cols >> 1 };
        let rendition = decode_rendition(&mut rest)?;
        line.spans.push(Span { cols: (cols >> 1) as u16, bytes: bytes as u32, rendition });
    }
    for _ in 0..varint(&mut rest)? {
        let id = varint(&mut rest).and_then(|len| take_str(&mut rest, len))?.to_string();
        let uri = varint(&mut rest).and_then(|len| take_str(&mut rest, len))?.to_string();
        line.links.push(Link { id, uri });
    }
    Some(())
}

fn skip(rest: &mut &[u8]) -> Option<()> {
    let head = varint(rest)?;
    let tail = if head & STYLED != 0 { varint(rest)? } else { 0 };
    *rest = rest.get(usize::try_from((head >> 3) + tail).ok()?..)?;
    Some(())
}

/// Replaces the underline form for blinking cells, which are rare; the form then follows the 16 bits in a byte.
const BLINKS: u16 = 7;

/// Encodes 16 bits of attributes and colour kinds, then explicit colours, then the link's index.
fn encode_rendition(rendition: &Rendition, out: &mut Vec<u8>) {
    let style = &rendition.style;
    let flags = [style.bold, style.dim, style.italic, style.inverse, style.hidden, style.strikeout];
    let mut bits = flags.iter().enumerate().fold(0u16, |bits, (i, on)| bits | u16::from(*on) << i);
    bits |= if style.blink { BLINKS } else { rendition.underline as u16 } << 6;
    let colors = [style.fg, style.bg, rendition.underline_color];
    for (i, color) in colors.iter().enumerate() {
        let kind = match color {
            Color::Default => 0u16,
            Color::Indexed(_) => 1,
            Color::Rgb(..) => 2,
        };
        bits |= kind << (9 + 2 * i);
    }
    bits |= u16::from(rendition.link != 0) << 15;
    out.extend_from_slice(&bits.to_le_bytes());
    if style.blink {
        out.push(rendition.underline as u8);
    }
    for color in colors {
        match color {
            Color::Default => {}
            Color::Indexed(n) => out.push(n),
            Color::Rgb(r, g, b) => out.extend_from_slice(&[r, g, b]),
        }
    }
    if rendition.link != 0 {
        put_varint(out, u64::from(rendition.link));
    }
}

fn decode_rendition(rest: &mut &[u8]) -> Option<Rendition> {
    let (head, tail) = rest.split_first_chunk::<2>()?;
    *rest = tail;
    let bits = u16::from_le_bytes(*head);
    let on = |bit: u16| bits >> bit & 1 != 0;
    let blink = bits >> 6 & 7 == BLINKS;
    let form = if blink {
        let (form, tail) = rest.split_first()?;
        *rest = tail;
        u16::from(*form)
    } else {
        bits >> 6 & 7
    };
    let underline = match form {
        0 => Underline::None,
        1 => Underline::Single,
        2 => Underline::Double,
        3 => Underline::Curl,
        4 => Underline::Dotted,
        _ => Underline::Dashed,
    };
    let fg = decode_color(bits >> 9 & 3, rest)?;
    let bg = decode_color(bits >> 11 & 3, rest)?;
    let underline_color = decode_color(bits >> 13 & 3, rest)?;
    let link = if on(15) { varint(rest)? as u16 } else { 0 };
    let style = Style {
        fg,
        bg,
        bold: on(0),
        dim: on(1),
        italic: on(2),
        underline: underline != Underline::None,
        blink,
        inverse: on(3),
        hidden: on(4),
        strikeout: on(5),
    };
    Some(Rendition { style, underline, underline_color, link })
}

fn decode_color(kind: u16, rest: &mut &[u8]) -> Option<Color> {
    match kind {
        0 => Some(Color::Default),
        1 => {
            let (n, tail) = rest.split_first()?;
            *rest = tail;
            Some(Color::Indexed(*n))
        }
        _ => {
            let ([r, g, b], tail) = rest.split_first_chunk::<3>()?;
            *rest = tail;
            Some(Color::Rgb(*r, *g, *b))
        }
    }
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, tail) = rest.split_first()?;
        *rest = tail;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn take_str<'a>(rest: &mut &'a [u8], len: u64) -> Option<&'a str> {
    let (text, tail) = rest.split_at_checked(usize::try_from(len).ok()?)?;
    *rest = tail;
    std::str::from_utf8(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn color() -> impl Strategy<Value = Color> {
        prop_oneof![
            Just(Color::Default),
            any::<u8>().prop_map(Color::Indexed),
            any::<(u8, u8, u8)>().prop_map(|(r, g, b)| Color::Rgb(r, g, b)),
        ]
    }

    fn rendition() -> impl Strategy<Value = Rendition> {
        let underline = prop_oneof![
            Just(Underline::None),
            Just(Underline::Single),
            Just(Underline::Double),
            Just(Underline::Curl),
            Just(Underline::Dotted),
            Just(Underline::Dashed),
        ];
        (any::<[bool; 7]>(), [color(), color(), color()], underline, 0u16..300).prop_map(
            |(
                [bold, dim, italic, blink, inverse, hidden, strikeout],
                [fg, bg, underline_color],
                underline,
                link,
            )| {
                let on = underline != Underline::None;
                let style =
                    Style { fg, bg, bold, dim, italic, underline: on, blink, inverse, hidden, strikeout };
                Rendition { style, underline, underline_color, link }
            },
        )
    }

    prop_compose! {
        fn line()(
            parts in prop::collection::vec(("\\PC{0,12}", rendition(), 0u16..40), 0..8),
            links in prop::collection::vec(("[a-z]{0,4}", "[ -~]{0,40}"), 0..3),
            plain in "\\PC{0,200}",
            wrapped: bool,
        ) -> Line {
            if parts.is_empty() {
                return Line { text: plain, wrapped, ..Line::default() };
            }
            let text = parts.iter().map(|part| part.0.as_str()).collect();
            let spans = parts
                .iter()
                .map(|(text, rendition, cols)| Span { cols: *cols, bytes: text.len() as u32, rendition: *rendition })
                .collect();
            let links = links.into_iter().map(|(id, uri)| Link { id, uri }).collect();
            Line { text, spans, links, wrapped }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
        #[test]
        fn lines_round_trip(lines in prop::collection::vec(line(), 0..40)) {
            let mut store = Store::default();
            lines.iter().for_each(|line| store.push(line));
            let mut read = Line::default();
            for (number, line) in lines.iter().enumerate() {
                prop_assert!(store.read(number as u64, &mut read));
                prop_assert_eq!(&read, line);
                prop_assert_eq!(store.is_wrapped(number as u64), line.wrapped);
            }
            prop_assert!(!store.read(lines.len() as u64, &mut read));
        }
    }

    fn numbered(n: u64) -> Line {
        Line { text: format!("row {n}"), ..Line::default() }
    }

    #[test]
    fn row_limit_evicts_oldest_rows() {
        let mut store = Store::new(1000, 1 << 30);
        (0..50_000).for_each(|n| store.push(&numbered(n)));
        assert_eq!((store.first(), store.end()), (49_000, 50_000));
        let mut line = Line::default();
        assert!(!store.read(48_999, &mut line));
        assert!(store.read(49_000, &mut line));
        assert_eq!(line.text, "row 49000");
        assert!(store.memory() < 3 * CHUNK, "{}", store.memory());
    }

    #[test]
    fn byte_limit_evicts_oldest_rows() {
        let mut store = Store::new(u64::MAX, 256 * 1024);
        let line = Line { text: "x".repeat(100), ..Line::default() };
        (0..100_000).for_each(|_| store.push(&line));
        assert!(store.memory() <= 256 * 1024 + CHUNK, "{}", store.memory());
        assert!(store.end() - store.first() > 1000);
        let mut read = Line::default();
        assert!(store.read(store.first(), &mut read) && store.read(store.end() - 1, &mut read));
    }

    #[test]
    fn numbering_continues_after_clear() {
        let mut store = Store::default();
        (0..5).for_each(|n| store.push(&numbered(n)));
        store.clear();
        assert_eq!((store.first(), store.end(), store.memory()), (5, 5, 0));
        store.push(&numbered(5));
        let mut line = Line::default();
        assert!(store.read(5, &mut line) && !store.read(4, &mut line));
    }

    #[test]
    fn plain_rows_have_little_overhead() {
        let mut store = Store::default();
        let line = Line { text: "y".repeat(120), ..Line::default() };
        (0..100_000).for_each(|_| store.push(&line));
        let per_row = store.memory() as f64 / 100_000.0;
        assert!(per_row < 123.5, "{per_row} bytes a row");
    }

    #[test]
    fn row_larger_than_chunk_is_stored() {
        let mut store = Store::default();
        let line = Line { text: "z".repeat(3 * CHUNK), ..Line::default() };
        store.push(&numbered(0));
        store.push(&line);
        store.push(&numbered(2));
        let mut read = Line::default();
        assert!(store.read(1, &mut read) && read == line);
        assert!(store.read(2, &mut read) && read.text == "row 2");
    }
}
