//! Evaluates compiled templates and expressions with the checks of [`super::limits`] after each instruction that can be expensive.

use std::collections::BTreeMap;

use minijinja::machinery::{
    CodeGenerator, Instruction, Instructions, eval, get_compiled_template, make_string_output, parse_expr,
};
use minijinja::{AutoEscape, Environment, Error, Value};

/// Internal filters. No template can name them.
pub(super) const CHECK_CREATED: &str = "$created";
pub(super) const CHECK_TIME: &str = "$time";
pub(super) const CHECK_PLAIN: &str = "$plain";
pub(super) const MULTIPLY: &str = "$multiply";

/// Renders a template of the engine.
pub(super) fn render(engine: &Environment<'_>, name: &str, context: Value) -> Result<String, Error> {
    let template = engine.get_template(name)?;
    let compiled = get_compiled_template(&template);
    let instructions = instrument(&compiled.instructions);
    let mut text = String::new();
    let mut output = make_string_output(&mut text);
    eval(engine, &instructions, context, &BTreeMap::new(), &mut output, AutoEscape::None)?;
    drop(output);
    Ok(text)
}

/// Evaluates an expression.
pub(super) fn evaluate(engine: &Environment<'_>, source: &str, context: Value) -> Result<Value, Error> {
    let expression = parse_expr(source)?;
    let mut generator = CodeGenerator::new("expression", source);
    generator.compile_expr(&expression);
    let instructions = instrument(&generator.finish().0);
    let mut text = String::new();
    let mut output = make_string_output(&mut text);
    let (value, _) = eval(engine, &instructions, context, &BTreeMap::new(), &mut output, AutoEscape::None)?;
    Ok(value.unwrap_or_default())
}

/// Returns the instructions with checks.
fn instrument<'s>(plain: &Instructions<'s>) -> Instructions<'s> {
    let all: Vec<&Instruction<'s>> = (0..).map_while(|at| plain.get(at)).collect();
    let namespaces =
        all.iter().any(|instruction| matches!(instruction, Instruction::CallFunction("namespace", _)));
    let mut starts = Vec::with_capacity(all.len() + 1);
    let mut groups = Vec::with_capacity(all.len());
    let mut next = 0;
    for (at, instruction) in all.iter().enumerate() {
        let group = with_checks(instruction, all.get(at + 1).copied(), namespaces);
        starts.push(next);
        next += u32::try_from(group.len()).unwrap_or(u32::MAX);
        groups.push(group);
    }
    starts.push(next);
    let mut checked = Instructions::new(plain.name(), plain.source());
    let mut last = None;
    for (at, group) in (0..).zip(groups) {
        // Literals have no position of their own: the last item shows where a check failed.
        last = plain.get_span(at).or(last);
        let span = if group.len() > 1 { last } else { plain.get_span(at) };
        for mut instruction in group {
            move_target(&mut instruction, &starts);
            match (span, plain.get_line(at)) {
                (Some(span), _) => checked.add_with_span(instruction, span),
                (None, Some(line)) => {
                    checked.add_with_line(instruction, u16::try_from(line).unwrap_or(u16::MAX))
                }
                (None, None) => checked.add(instruction),
            };
        }
    }
    checked
}

/// Returns an instruction with the checks before and after it.
fn with_checks<'s>(
    instruction: &Instruction<'s>,
    next: Option<&Instruction<'s>>,
    namespaces: bool,
) -> Vec<Instruction<'s>> {
    let check = |name| Instruction::ApplyFilter(name, Some(1), u8::MAX);
    let is_attribute_next = matches!(next, Some(Instruction::GetAttr(_) | Instruction::SetAttr(_)));
    match instruction {
        // Inside a capture, the text is copied.
        Instruction::EmitRaw(text) => {
            vec![Instruction::LoadConst(Value::from_safe_string((*text).to_string())), Instruction::Emit]
        }
        Instruction::Mul => vec![Instruction::ApplyFilter(MULTIPLY, Some(2), u8::MAX)],
        Instruction::Add
        | Instruction::StringConcat
        | Instruction::Slice
        | Instruction::BuildList(_)
        | Instruction::BuildTuple(_)
        | Instruction::BuildMap(_)
        | Instruction::BuildKwargs(_)
        | Instruction::EndCapture
        | Instruction::CallMethod(..)
        | Instruction::CallObject(_) => vec![instruction.clone(), check(CHECK_CREATED)],
        // A range is lazy and has its own limit.
        Instruction::CallFunction(name, _) if !matches!(*name, "namespace" | "loop" | "range") => {
            vec![instruction.clone(), check(CHECK_CREATED)]
        }
        // The value of `{% set namespace.attribute = value %}` is on the stack.
        Instruction::Lookup(_) if namespaces && matches!(next, Some(Instruction::SetAttr(_))) => {
            vec![check(CHECK_PLAIN), instruction.clone()]
        }
        Instruction::Lookup(_) | Instruction::GetAttr(_) if namespaces && !is_attribute_next => {
            vec![instruction.clone(), check(CHECK_PLAIN)]
        }
        Instruction::GetItem if namespaces => vec![instruction.clone(), check(CHECK_PLAIN)],
        Instruction::GetItem
        | Instruction::Eq
        | Instruction::Ne
        | Instruction::Gt
        | Instruction::Gte
        | Instruction::Lt
        | Instruction::Lte
        | Instruction::In
        | Instruction::CompareAndPreserve(_)
        | Instruction::PerformTest(..) => vec![instruction.clone(), check(CHECK_TIME)],
        _ => vec![instruction.clone()],
    }
}

/// Moves the target of a jump to where its instruction is now.
fn move_target(instruction: &mut Instruction<'_>, starts: &[u32]) {
    if let Instruction::Iterate(target)
    | Instruction::Jump(target)
    | Instruction::JumpIfFalse(target)
    | Instruction::JumpIfFalseOrPop(target)
    | Instruction::JumpIfTrueOrPop(target) = instruction
        && let Some(start) = usize::try_from(*target).ok().and_then(|at| starts.get(at))
    {
        *target = *start;
    }
}
