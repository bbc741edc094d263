//! SSZ containers and unions: fixed-size fields and u32 offsets first, then the variable parts in the same order (consensus-specs,
//! `ssz/simple-serialize.md`). A union is a selector byte before its value.

use super::SszError;

/// Encoding of a field in the fixed-size part.
#[derive(Debug, Clone, Copy)]
pub(super) enum Field {
    Byte,
    Number,
    Variable,
}

impl Field {
    const fn size(self) -> usize {
        match self {
            Field::Byte => 1,
            Field::Number => size_of::<u64>(),
            Field::Variable => size_of::<u32>(),
        }
    }
}

/// A field's value to encode.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'a> {
    Byte(u8),
    Number(u64),
    Bytes(&'a [u8]),
    Optional(Option<&'a [u8]>),
}

impl Value<'_> {
    fn field(&self) -> Field {
        match self {
            Value::Byte(_) => Field::Byte,
            Value::Number(_) => Field::Number,
            Value::Bytes(_) | Value::Optional(_) => Field::Variable,
        }
    }
}

/// Encodes a union variant that is a container.
pub(super) fn join<const N: usize>(selector: u8, values: [Value<'_>; N]) -> Vec<u8> {
    let fixed: usize = values.iter().map(|value| value.field().size()).sum();
    let mut body = vec![selector];
    let mut variable: Vec<u8> = Vec::new();
    // An offset that does not fit belongs to a body that exceeds every frame limit anyway.
    let offset = |variable: &[u8]| u32::try_from(fixed + variable.len()).unwrap_or(u32::MAX).to_le_bytes();
    for value in values {
        match value {
            Value::Byte(byte) => body.push(byte),
            Value::Number(number) => body.extend_from_slice(&number.to_le_bytes()),
            Value::Bytes(bytes) => {
                body.extend_from_slice(&offset(&variable));
                variable.extend_from_slice(bytes);
            }
            Value::Optional(bytes) => {
                body.extend_from_slice(&offset(&variable));
                variable.push(u8::from(bytes.is_some()));
                variable.extend_from_slice(bytes.unwrap_or_default());
            }
        }
    }
    body.extend_from_slice(&variable);
    body
}

/// Splits a union into selector and value.
pub(super) fn selected(body: &[u8]) -> Result<(u8, &[u8]), SszError> {
    body.split_first().map(|(selector, rest)| (*selector, rest)).ok_or(SszError::Empty)
}

/// Splits a container into its fields and checks their lengths.
pub(super) fn split<const N: usize>(body: &[u8], layout: [Field; N]) -> Result<[&[u8]; N], SszError> {
    let fixed: usize = layout.iter().map(|field| field.size()).sum();
    let variable = layout.iter().any(|field| matches!(field, Field::Variable));
    if body.len() < fixed || (!variable && body.len() > fixed) {
        return Err(SszError::Length { expected: fixed, found: body.len() });
    }
    let mut fields = [&body[..0]; N];
    let mut at = 0;
    for (field, kind) in fields.iter_mut().zip(layout) {
        *field = &body[at..at + kind.size()];
        at += kind.size();
    }
    // Backwards from the last part, because each part ends where the next begins.
    let mut end = body.len();
    let mut first = None;
    for (field, kind) in fields.iter_mut().zip(layout).rev() {
        if matches!(kind, Field::Variable) {
            let offset = u32::from_le_bytes(array(field)?);
            let bad = SszError::Offset { offset, length: body.len() };
            let start = usize::try_from(offset).map_err(|_| bad.clone())?;
            if start < fixed || start > end {
                return Err(bad);
            }
            *field = &body[start..end];
            end = start;
            first = Some((start, bad));
        }
    }
    match first {
        Some((start, bad)) if start != fixed => Err(bad),
        _ => Ok(fields),
    }
}

pub(super) fn number(field: &[u8]) -> Result<u64, SszError> {
    array(field).map(u64::from_le_bytes)
}

pub(super) fn byte(field: &[u8]) -> Result<u8, SszError> {
    array::<1>(field).map(|[byte]| byte)
}

/// Decodes an Option: 0, or 1 and the value.
pub(super) fn optional(field: &[u8]) -> Result<Option<&[u8]>, SszError> {
    match selected(field).map_err(|_| SszError::Length { expected: 1, found: 0 })? {
        (0, []) => Ok(None),
        (0, rest) => Err(SszError::Length { expected: 1, found: 1 + rest.len() }),
        (1, value) => Ok(Some(value)),
        (selector, _) => Err(SszError::Selector { union: "an Option", selector }),
    }
}

fn array<const N: usize>(field: &[u8]) -> Result<[u8; N], SszError> {
    field.try_into().map_err(|_| SszError::Length { expected: N, found: field.len() })
}
