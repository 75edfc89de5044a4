//! Lays out the vocabularies and the sorts of characters as tables that a program reads where they lie.
//!
//! Runs when the crate is built and is no part of it. The tokens are those of tiktoken-rs, the sorts of characters
//! those of the regex that it splits texts with: both are what counts are compared with. Never fetches anything.

#[path = "hash.rs"]
mod hash;
#[path = "layout.rs"]
mod layout;

use hash::hash;
use layout::{BLOCK, NEVER, OFFSET_BITS, mark, pair, sort};
use regex_syntax::hir::{Class, HirKind};
use std::path::PathBuf;
use std::{env, fs};
use tiktoken_rs::{CoreBPE, cl100k_base, o200k_base};

fn main() {
    for file in ["build.rs", "hash.rs", "layout.rs"] {
        println!("cargo::rerun-if-changed=tokens/{file}");
    }
    write("sorts", &sorts());
    for (name, bpe) in [("o200k_base", o200k_base()), ("cl100k_base", cl100k_base())] {
        let tables = Tables::of(&bpe.expect("tiktoken-rs brings its vocabularies with it"));
        write(&format!("{name}.tokens"), &tables.tokens);
        write(&format!("{name}.slots"), &bytes(&tables.slots));
        write(&format!("{name}.pairs"), &bytes(&tables.pairs));
    }
}

fn write(name: &str, bytes: &[u8]) {
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo names it"));
    fs::write(folder.join(name), bytes).expect("cargo lets a build script write there");
}

fn bytes(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

struct Tables {
    /// The tokens in the order of their ranks, each after its length.
    tokens: Vec<u8>,
    /// By the hash of a token, where it begins and some of its hash.
    slots: Vec<u32>,
    /// By its two bytes, where a token begins.
    pairs: Vec<u32>,
}

impl Tables {
    fn of(bpe: &CoreBPE) -> Self {
        // The special tokens come after a gap in the ranks: they are no tokens of a text.
        let all: Vec<Vec<u8>> = (0..).map_while(|rank| bpe.decode_bytes(&[rank]).ok()).collect();
        // At most half full, so that what is not there is told soon.
        let mut slots = vec![0; (all.len() * 2).next_power_of_two()];
        let mut pairs = vec![NEVER; 1 << 16];
        // The first byte is nobody's: a token at zero would look like an empty slot.
        let mut tokens = vec![0];
        for token in all {
            assert!(tokens.len() < 1 << OFFSET_BITS);
            let offset = tokens.len() as u32;
            let hash = hash(&token);
            let mut at = hash as usize % slots.len();
            while slots[at] != 0 {
                at = (at + 1) % slots.len();
            }
            slots[at] = mark(hash) | offset;
            if let [first, second] = token[..] {
                pairs[pair(first, second)] = offset;
            }
            tokens.push(u8::try_from(token.len()).expect("no token is so long"));
            tokens.extend(token);
        }
        Self { tokens, slots, pairs }
    }
}

/// The number of its block for every block of characters, then the blocks that differ, a byte for each character.
fn sorts() -> Vec<u8> {
    let mut sorts = vec![sort::SIGN; char::MAX as usize + 1];
    let classes = [
        (r"\p{Lu}", sort::UPPER),
        (r"\p{Lt}", sort::UPPER),
        (r"\p{Ll}", sort::LOWER),
        (r"\p{Lm}", sort::CASELESS),
        (r"\p{Lo}", sort::CASELESS),
        (r"\p{M}", sort::MARK),
        (r"\p{N}", sort::DIGIT),
        (r"\s", sort::BLANK),
        (r"[\r\n]", sort::LINE),
    ];
    for (class, sort) in classes {
        let hir = regex_syntax::parse(class).expect("a class");
        let HirKind::Class(Class::Unicode(class)) = hir.into_kind() else { panic!("a class of characters") };
        for range in class.ranges() {
            sorts[range.start() as usize..=range.end() as usize].fill(sort);
        }
    }
    let (mut index, mut blocks) = (Vec::new(), Vec::<&[u8]>::new());
    for block in sorts.chunks(BLOCK) {
        let number = blocks.iter().position(|known| *known == block).unwrap_or(blocks.len());
        if number == blocks.len() {
            blocks.push(block);
        }
        index.push(u8::try_from(number).expect("the blocks are few"));
    }
    index.into_iter().chain(blocks.concat()).collect()
}
