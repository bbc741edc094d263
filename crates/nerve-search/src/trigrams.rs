//! Filters of texts by the sequences of three bytes in them.
//!
//! A filter is a Bloom filter with one hash function: a set of bits, one for each trigram of some texts. It may have bits of trigrams
//! that are not there, and never lacks one that is. Its bits are divided into shards, so that a search reads only the shards of the few
//! trigrams that it requires. Texts and patterns are folded: ASCII letters in lower case.

use std::borrow::Cow;

use regex_syntax::hir::{Hir, HirKind};

use crate::required_words::{chars_of, fold};

/// Size of the texts of a block in bytes, after which the next block begins.
pub const BLOCK_LEN: usize = 64 << 10;
/// Number of shards of a filter.
pub const SHARDS: usize = 16;
/// Maximum size of a shard in bytes. With blocks of [`BLOCK_LEN`], about one bit in eight is set.
const MAX_SHARD: usize = 512;
/// Minimum size of a shard in bytes.
const MIN_SHARD: usize = 8;
/// Bytes of text per byte of a filter.
const TEXT_PER_BYTE: usize = 8;
/// Maximum number of shards that a search reads. Further trigrams exclude little.
const MAX_READ: usize = 4;
/// Bytes of a trigram.
const TRIGRAM: usize = 3;

/// The trigrams of some texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrigramFilter {
    shards: Vec<Vec<u8>>,
}

impl TrigramFilter {
    /// Creates the filter of some texts. A trigram is in one text.
    pub fn new<'a>(texts: impl Iterator<Item = &'a str> + Clone) -> TrigramFilter {
        let len: usize = texts.clone().map(str::len).sum();
        let shard = (len / (TEXT_PER_BYTE * SHARDS)).next_power_of_two().clamp(MIN_SHARD, MAX_SHARD);
        let mut shards = vec![vec![0; shard]; SHARDS];
        for text in texts {
            for trigram in folded(text).as_bytes().windows(TRIGRAM).map(Trigram::new) {
                let (byte, mask) = trigram.bit(shard);
                shards[usize::from(trigram.shard())][byte] |= mask;
            }
        }
        TrigramFilter { shards }
    }

    /// Returns the shards in order.
    pub fn shards(&self) -> impl Iterator<Item = &[u8]> {
        self.shards.iter().map(Vec::as_slice)
    }
}

/// The hash of a trigram, whose bits are the shard and the bit in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Trigram(u32);

impl Trigram {
    fn new(bytes: &[u8]) -> Trigram {
        let number =
            bytes.iter().fold(0, |number, byte| (number << 8) | u32::from(byte.to_ascii_lowercase()));
        // Multiplicative hashing with the golden ratio: the highest bits are the best.
        Trigram(number.wrapping_mul(0x9e37_79b1))
    }

    fn shard(self) -> u8 {
        (self.0 >> 28) as u8
    }

    /// Returns the byte and the mask of the bit in a shard of this size, a power of two.
    fn bit(self, shard_len: usize) -> (usize, u8) {
        let bit = (self.0 >> 16) as usize & (shard_len * 8 - 1) & 0xfff;
        (bit / 8, 1 << (bit % 8))
    }
}

/// Returns a text in which the other forms of ASCII letters are ASCII letters, as in [`fold`].
fn folded(text: &str) -> Cow<'_, str> {
    let is_other = |c: char| !c.is_ascii() && fold(c).is_some();
    match text.is_ascii() || !text.contains(is_other) {
        true => Cow::Borrowed(text),
        false => text.chars().map(|c| fold(c).unwrap_or(c)).collect::<String>().into(),
    }
}

/// The trigrams that every match of a pattern contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequiredTrigrams {
    /// By shard: those with the most trigrams.
    shards: Vec<(u8, Vec<Trigram>)>,
}

impl RequiredTrigrams {
    /// Returns the trigrams of an expression; `None` if it requires none.
    pub fn of(expression: &Hir) -> Option<RequiredTrigrams> {
        let mut literals = vec![Vec::new()];
        collect(expression, &mut literals);
        let mut shards: Vec<(u8, Vec<Trigram>)> =
            (0..).map(|shard| (shard, Vec::new())).take(SHARDS).collect();
        for trigram in literals.iter().flat_map(|literal| literal.windows(TRIGRAM)).map(Trigram::new) {
            shards[usize::from(trigram.shard())].1.push(trigram);
        }
        shards.retain(|(_, trigrams)| !trigrams.is_empty());
        for (_, trigrams) in &mut shards {
            trigrams.sort();
            trigrams.dedup();
        }
        shards.sort_by_key(|(_, trigrams)| std::cmp::Reverse(trigrams.len()));
        shards.truncate(MAX_READ);
        (!shards.is_empty()).then_some(RequiredTrigrams { shards })
    }

    /// Returns the shards that a search has to read.
    pub fn shards(&self) -> impl Iterator<Item = u8> {
        self.shards.iter().map(|(shard, _)| *shard)
    }

    /// Returns false if the texts of a filter have no match, by one of its shards.
    pub fn may_match(&self, shard: u8, bits: &[u8]) -> bool {
        let trigrams = self.shards.iter().filter(|(own, _)| *own == shard).flat_map(|(_, trigrams)| trigrams);
        // A shard of another size is damaged, and excludes nothing.
        !bits.len().is_power_of_two()
            || trigrams.copied().all(|trigram| {
                let (byte, mask) = trigram.bit(bits.len());
                bits.get(byte).is_none_or(|bits| bits & mask != 0)
            })
    }
}

/// Collects the literal parts of an expression, folded. The last one is still open: what follows continues it.
fn collect(expression: &Hir, literals: &mut Vec<Vec<u8>>) {
    match expression.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => match std::str::from_utf8(&literal.0) {
            Ok(text) => text.chars().for_each(|c| push(c, literals)),
            Err(_) => literals.push(Vec::new()),
        },
        HirKind::Class(class) => match chars_of(class).as_deref() {
            Some([first, others @ ..]) if others.iter().all(|c| folded_char(*c) == folded_char(*first)) => {
                push(*first, literals);
            }
            _ => literals.push(Vec::new()),
        },
        HirKind::Repetition(repetition) if repetition.min > 0 => {
            collect(&repetition.sub, literals);
            if repetition.max != Some(1) {
                literals.push(Vec::new());
                // What follows comes after the last of the repeated texts. Long ones are not repeated here: they may be nested.
                if matches!(repetition.sub.kind(), HirKind::Literal(_) | HirKind::Class(_)) {
                    collect(&repetition.sub, literals);
                }
            }
        }
        HirKind::Capture(capture) => collect(&capture.sub, literals),
        HirKind::Concat(parts) => parts.iter().for_each(|part| collect(part, literals)),
        HirKind::Repetition(_) | HirKind::Alternation(_) => literals.push(Vec::new()),
    }
}

fn folded_char(c: char) -> char {
    fold(c).unwrap_or(c)
}

/// Appends a character to the literal that is open.
fn push(c: char, literals: &mut [Vec<u8>]) {
    if let Some(open) = literals.last_mut() {
        open.extend_from_slice(folded_char(c).encode_utf8(&mut [0; 4]).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use regex::RegexBuilder;
    use regex_syntax::ParserBuilder;

    use super::*;

    fn parse(pattern: &str) -> Hir {
        ParserBuilder::new().multi_line(true).build().parse(pattern).unwrap()
    }

    /// Returns the literals of at least three bytes.
    fn literals(pattern: &str) -> Vec<String> {
        let mut literals = vec![Vec::new()];
        collect(&parse(pattern), &mut literals);
        let texts = literals.into_iter().map(|literal| String::from_utf8(literal).unwrap());
        texts.filter(|literal| literal.len() >= TRIGRAM).collect()
    }

    fn may_match(pattern: &str, texts: &[&str]) -> bool {
        let filter = TrigramFilter::new(texts.iter().copied());
        let Some(required) = RequiredTrigrams::of(&parse(pattern)) else { return true };
        let shards: Vec<&[u8]> = filter.shards().collect();
        required.shards().all(|shard| required.may_match(shard, shards[usize::from(shard)]))
    }

    #[test]
    fn literal_parts_are_required() {
        for (pattern, expected) in [
            ("quok+a7$", &["quok", "ka7"][..]),
            ("error\\[E0277\\]", &["error[e0277]"]),
            (r"(?i)\bTask", &["task"]),
            ("foo.*bar", &["foo", "bar"]),
            ("(foo)bar", &["foobar"]),
            ("foo(bar)+baz", &["foobar", "baz"]),
            ("a{3}bc", &["abc"]),
            ("(?:ab){1}c", &["abc"]),
            ("foo?bar", &["bar"]),
            ("(?i)\u{e9}abc", &["abc"]),
            ("\u{65e5}", &["\u{65e5}"]),
            ("(a|b)cd|e", &[]),
            ("E0[0-9]7", &[]),
            ("(abc)?", &[]),
        ] {
            assert_eq!(literals(pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn texts_with_a_match_are_never_excluded() {
        let texts = [
            "error[E0277]: the trait",
            "quokka7",
            "quokkkka7\nmore",
            "TASK done",
            "\u{17f}pam here",
            "spam here",
            "日本語",
            "a  b\tc",
            "aaa",
            "fooBARbar baz",
            "\u{212a}ey",
            "",
            "x",
        ];
        let patterns = [
            "quok+a7$",
            r"\[E0277\]",
            "(?i)task",
            "(?i)spam",
            "spam",
            "本",
            "aa+a",
            r"a\s+b",
            "(?i)foo(bar)+ baz",
            "(?i)key",
            "ſpam",
            "[ſs]pam",
            "(?-u:foo)",
            "^error",
            "e.*t",
        ];
        for pattern in patterns {
            let regex = RegexBuilder::new(pattern).multi_line(true).build().unwrap();
            for text in texts {
                let matches = regex.is_match(text);
                assert!(!matches || may_match(pattern, &[text]), "{pattern} in {text}");
                assert!(!matches || may_match(pattern, &["other", text, "more"]), "{pattern} in {text}");
            }
        }
    }

    #[test]
    fn most_other_texts_are_excluded() {
        let words =
            ["server", "client", "request", "response", "terminal", "recording", "snapshot", "branch"];
        let line = |at: usize| format!("{} {} {at}\n", words[at % 8], words[at / 8 % 8]);
        let block: String = (0..3000).map(line).collect();
        let excluded = (0..200).filter(|at| !may_match(&format!("wombat{at}q"), &[&block])).count();
        assert!(excluded > 190, "{excluded} of 200");
        assert!(may_match("recording client", &[&block]));
        let filter = TrigramFilter::new([block.as_str()].into_iter());
        assert!(filter.shards().map(<[u8]>::len).sum::<usize>() <= SHARDS * MAX_SHARD);
    }

    #[test]
    fn damaged_shards_exclude_nothing() {
        let required = RequiredTrigrams::of(&parse("wombat")).unwrap();
        for shard in required.shards() {
            assert!(required.may_match(shard, &[]) && required.may_match(shard, &[0; 3]));
            assert!(!required.may_match(shard, &[0; 8]));
        }
    }
}
