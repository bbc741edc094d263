//! Words for generated texts, as frequent as those of a language, and agents' output with other words.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use nerve_testkit::Random;

/// Number of different words.
const WORDS: usize = 20_000;
/// The most frequent words.
pub(crate) const COMMON: [&str; 12] = [
    "the", "test", "error", "file", "build", "value", "server", "function", "return", "cache", "branch",
    "commit",
];
const SYLLABLES: [&str; 24] = [
    "an", "ber", "con", "der", "en", "fi", "gra", "han", "in", "jo", "ker", "lo", "men", "ni", "or", "pre",
    "qua", "ri", "sta", "ter", "un", "ver", "wi", "zo",
];
/// Shorter words of the output are left alone.
const MIN_LEN: usize = 4;

/// A vocabulary whose word of rank r is 1/r as frequent as the first one (Zipf's law).
pub(crate) struct Vocabulary {
    words: Vec<String>,
    by_len: HashMap<usize, Vec<usize>>,
}

impl Vocabulary {
    pub(crate) fn new() -> Vocabulary {
        let (mut random, mut words) = (Random(7), COMMON.map(str::to_string).to_vec());
        while words.len() < WORDS {
            let syllables = 2 + random.below(3);
            words.push((0..syllables).map(|_| SYLLABLES[random.below(24) as usize]).collect());
        }
        let mut by_len: HashMap<usize, Vec<usize>> = HashMap::new();
        for (rank, word) in words.iter().enumerate() {
            by_len.entry(word.len()).or_default().push(rank);
        }
        Vocabulary { words, by_len }
    }

    /// Returns a sentence of `count` words.
    pub(crate) fn sentence(&self, random: &mut Random, count: u64) -> String {
        let words: Vec<&str> = (0..count).map(|_| self.words[rank(random, WORDS)].as_str()).collect();
        words.join(" ")
    }

    /// Returns a word of this length, if there is one.
    fn word_of_len(&self, random: &mut Random, len: usize) -> Option<&str> {
        let ranks = self.by_len.get(&len)?;
        Some(&self.words[ranks[rank(random, ranks.len())]])
    }
}

/// Returns a random rank below `count`.
fn rank(random: &mut Random, count: usize) -> usize {
    let uniform = random.below(1 << 32) as f64 / (1_u64 << 32) as f64;
    ((count as f64 + 1.0).powf(uniform) as usize).clamp(1, count) - 1
}

/// Output of an agent whose words can be replaced.
pub(crate) struct OutputTemplate {
    output: Vec<u8>,
    /// Each word, with its number among the different words.
    words: Vec<(Range<usize>, usize)>,
    /// The different words.
    distinct: Vec<Vec<u8>>,
}

impl OutputTemplate {
    pub(crate) fn new(output: Vec<u8>) -> OutputTemplate {
        let (mut words, mut numbers, mut distinct) = (Vec::new(), HashMap::new(), Vec::new());
        let mut start = 0;
        while start < output.len() {
            let len = output[start..].iter().take_while(|byte| byte.is_ascii_lowercase()).count();
            let range = start..start + len;
            if len >= MIN_LEN {
                let word = output[range.clone()].to_vec();
                let number = *numbers.entry(word.clone()).or_insert_with(|| {
                    distinct.push(word);
                    distinct.len() - 1
                });
                words.push((range, number));
            }
            start += len.max(1);
        }
        OutputTemplate { output, words, distinct }
    }

    /// Returns the output with other words of the same lengths. A word is replaced by the same one everywhere, because programs draw
    /// a text several times.
    pub(crate) fn with_words(&self, vocabulary: &Vocabulary, seed: u64) -> Vec<u8> {
        let replacements: Vec<&[u8]> = self
            .distinct
            .iter()
            .map(|word| {
                let mut hasher = DefaultHasher::new();
                (seed, word).hash(&mut hasher);
                let new = vocabulary.word_of_len(&mut Random(hasher.finish()), word.len());
                new.map_or(word.as_slice(), str::as_bytes)
            })
            .collect();
        let mut output = self.output.clone();
        for (range, number) in &self.words {
            output[range.clone()].copy_from_slice(replacements[*number]);
        }
        output
    }
}
