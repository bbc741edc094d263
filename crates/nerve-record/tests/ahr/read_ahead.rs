use std::io::Cursor;

use nerve_record::ahr::{Part, Reader};

use super::counting;

fn offset(part: &Part) -> u64 {
    let Part::Block(block) = part else { panic!("{part:?}") };
    block.file_off
}

#[test]
fn parts_read_ahead_are_returned_later() {
    let file = counting(&[1, 2, 3, 4, 5, 6, 7, 8, 9]).concat();
    let mut reader = Reader::new(Cursor::new(&file)).unwrap();
    let mut all = Vec::new();
    while let Some(part) = reader.next().unwrap() {
        all.push(offset(&part));
    }
    for stop in 1..=all.len() {
        let mut reader = Reader::new(Cursor::new(&file)).unwrap();
        let mut seen = Vec::new();
        let mut see_until = |reader: &mut Reader<_>, stop: usize| {
            let process = |part: Part| {
                seen.push(offset(&part));
                Ok(seen.len() < stop)
            };
            reader.read_ahead(process).unwrap();
            seen.clone()
        };
        assert_eq!(see_until(&mut reader, stop), all[..stop]);
        assert_eq!(see_until(&mut reader, usize::MAX), all);
    }
}

#[test]
fn seek_discards_parts_read_ahead() {
    let file = counting(&[1, 2, 3, 4, 5, 6]).concat();
    let mut reader = Reader::new(Cursor::new(&file)).unwrap();
    let mut count = 0;
    let two = |_| {
        count += 1;
        Ok(count < 2)
    };
    reader.read_ahead(two).unwrap();
    reader.seek_to(0).unwrap();
    assert_eq!(offset(&reader.next().unwrap().unwrap()), 0);
}
