//! Finds the names that a template refers to, with their positions.

use std::ops::Range;

use minijinja::machinery::ast::{self, Expr, Spanned, Stmt};
use minijinja::machinery::{Span, Token, parse, parse_expr, tokenize};

use super::{engine, limits};

/// Maximum number of operators, fields, filters and brackets in one expression. The engine recurses for each of them, and could
/// overflow the stack.
const MAX_OPERATORS: usize = 500;

/// Maximum memory of the constant values that the compiler computes for one template.
const MAX_CONSTANTS: usize = 1 << 20;

/// The names that a template refers to.
#[derive(Debug, Default)]
pub(in crate::file) struct References {
    /// Variables that the template does not define itself.
    pub(in crate::file) variables: Vec<Variable>,
    /// Filters, tests and functions.
    pub(in crate::file) calls: Vec<Call>,
    /// Path of the variable, if the expression is just one.
    pub(in crate::file) variable_path: Option<Vec<String>>,
}

/// A variable with its constant field accesses: `steps.ask.text`, `steps['ask'].text`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::file) struct Variable {
    /// Segments: `steps`, `ask`, `text`.
    pub(in crate::file) path: Vec<String>,
    /// Byte range in the source.
    pub(in crate::file) span: Range<usize>,
}

/// A filter, test or function call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::file) struct Call {
    pub(in crate::file) kind: CallKind,
    pub(in crate::file) name: String,
    /// Byte range in the source.
    pub(in crate::file) span: Range<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::file) enum CallKind {
    Filter,
    Test,
    Function,
}

/// A syntax error in a template.
#[derive(Debug)]
pub(crate) struct TemplateError {
    pub(crate) message: String,
    /// Byte range in the source.
    pub(crate) span: Range<usize>,
}

/// Returns the references of a template.
pub(in crate::file) fn parse_template(source: &str) -> Result<References, TemplateError> {
    check_operator_count(source, false)?;
    match parse(source, "template", engine::syntax()) {
        Ok(statement) => {
            let mut visitor = Visitor::new(source);
            visitor.statement(&statement);
            visitor.finish()
        }
        Err(error) => Err(template_error(&error, source)),
    }
}

/// Returns the references of an expression.
pub(in crate::file) fn parse_expression(source: &str) -> Result<References, TemplateError> {
    check_operator_count(source, true)?;
    match parse_expr(source) {
        Ok(expression) => {
            let mut visitor = Visitor::new(source);
            visitor.expression(&expression);
            visitor.references.variable_path = constant_path(&expression).map(|(path, _)| path);
            visitor.finish()
        }
        Err(error) => Err(template_error(&error, source)),
    }
}

/// Checks the number of operators. `is_expression`: the source is an expression, not a template.
fn check_operator_count(source: &str, is_expression: bool) -> Result<(), TemplateError> {
    let mut operators = 0;
    // Invalid tokens are reported by the parser.
    for (token, span) in tokenize(source, is_expression, engine::syntax()).map_while(Result::ok) {
        match token {
            Token::VariableStart | Token::BlockStart => operators = 0,
            Token::TemplateData(_)
            | Token::Str(_)
            | Token::String(_)
            | Token::Int(_)
            | Token::Float(_)
            | Token::Comma => {}
            _ => operators += 1,
        }
        if operators > MAX_OPERATORS {
            let message = format!("expression too long: at most {MAX_OPERATORS} names and operators");
            return Err(TemplateError { message, span: byte_range(span) });
        }
    }
    Ok(())
}

fn template_error(error: &minijinja::Error, source: &str) -> TemplateError {
    let message = error.detail().map_or_else(|| error.kind().to_string(), ToString::to_string);
    let line_start = || {
        let line = error.line()?.checked_sub(1)?;
        Some(source.split_inclusive('\n').take(line).map(str::len).sum::<usize>())
    };
    let span = error.range().unwrap_or_else(|| {
        let start = line_start().unwrap_or(0).min(source.len());
        start..source[start..].find('\n').map_or(source.len(), |end| start + end)
    });
    TemplateError { message, span }
}

struct Visitor<'s> {
    source: &'s str,
    references: References,
    /// Names defined by the template, by scope.
    scopes: Vec<Vec<&'s str>>,
    /// Memory of the constants that the compiler computes.
    constants: usize,
    problem: Option<TemplateError>,
}

impl<'s> Visitor<'s> {
    fn new(source: &'s str) -> Visitor<'s> {
        let scopes = vec![Vec::new()];
        Visitor { source, references: References::default(), scopes, constants: 0, problem: None }
    }

    fn finish(self) -> Result<References, TemplateError> {
        self.problem.map_or(Ok(self.references), Err)
    }

    fn reject(&mut self, message: impl Into<String>, span: Span) {
        self.problem.get_or_insert(TemplateError { message: message.into(), span: byte_range(span) });
    }

    /// Rejects an operation whose constant result is large: the compiler computes it.
    fn check_constant(&mut self, operation: &Spanned<ast::BinOp<'s>>) {
        if self.problem.is_some() {
            return;
        }
        let (Some(left), Some(right)) = (operation.left.as_const(), operation.right.as_const()) else {
            return;
        };
        let size = match operation.op {
            ast::BinOpKind::Mul => limits::product_size(&left, &right),
            ast::BinOpKind::Add | ast::BinOpKind::Concat => limits::Size::of(&left)
                .and_then(|left| Ok(left.bytes().saturating_add(limits::Size::of(&right)?.bytes()))),
            _ => return,
        };
        self.constants = self.constants.saturating_add(size.unwrap_or(usize::MAX));
        if self.constants > MAX_CONSTANTS {
            self.reject(format!("constant expressions exceed {MAX_CONSTANTS} bytes"), operation.span());
        }
    }

    fn is_defined(&self, name: &str) -> bool {
        self.scopes.iter().any(|scope| scope.contains(&name))
    }

    /// Visits the inside of a scope; its definitions end with it.
    fn with_scope(&mut self, inner: impl FnOnce(&mut Visitor<'s>)) {
        self.scopes.push(Vec::new());
        inner(self);
        self.scopes.pop();
    }

    fn statements(&mut self, statements: &[Stmt<'s>]) {
        statements.iter().for_each(|statement| self.statement(statement));
    }

    fn statement(&mut self, statement: &Stmt<'s>) {
        match statement {
            Stmt::Template(template) => self.statements(&template.children),
            Stmt::EmitExpr(emit) => self.expression(&emit.expr),
            Stmt::EmitRaw(_) => {}
            Stmt::ForLoop(each) => {
                self.expression(&each.iter);
                self.with_scope(|visitor| {
                    visitor.assign_name("loop");
                    visitor.assign(&each.target);
                    each.filter_expr.iter().for_each(|filter| visitor.expression(filter));
                    visitor.statements(&each.body);
                });
                self.with_scope(|visitor| visitor.statements(&each.else_body));
            }
            Stmt::IfCond(condition) => {
                // Names defined in a branch remain defined afterwards.
                self.expression(&condition.expr);
                self.statements(&condition.true_body);
                self.statements(&condition.false_body);
            }
            Stmt::WithBlock(with) => self.with_scope(|visitor| {
                for (target, value) in &with.assignments {
                    visitor.expression(value);
                    visitor.assign(target);
                }
                visitor.statements(&with.body);
            }),
            Stmt::Set(set) => {
                self.expression(&set.expr);
                self.assign(&set.target);
            }
            Stmt::SetBlock(set) => {
                self.with_scope(|visitor| visitor.statements(&set.body));
                set.filter.iter().for_each(|filter| self.expression(filter));
                self.assign(&set.target);
            }
            Stmt::AutoEscape(escape) => {
                self.expression(&escape.enabled);
                self.with_scope(|visitor| visitor.statements(&escape.body));
            }
            Stmt::FilterBlock(filter) => {
                self.expression(&filter.filter);
                self.with_scope(|visitor| visitor.statements(&filter.body));
            }
            Stmt::Do(call) => self.call(&call.call),
        }
    }

    fn assign(&mut self, target: &Expr<'s>) {
        match target {
            Expr::Var(variable) => self.assign_name(variable.id),
            Expr::List(list) => list.items.iter().for_each(|item| self.assign(item)),
            Expr::Tuple(tuple) => tuple.items.iter().for_each(|item| self.assign(item)),
            // `{% set ns.x = … %}`: the name itself must be defined.
            other => self.expression(other),
        }
    }

    fn assign_name(&mut self, name: &'s str) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.push(name);
        }
    }

    fn expression(&mut self, expression: &Expr<'s>) {
        if let Some((path, start)) = constant_path(expression) {
            if !self.is_defined(&path[0]) {
                let span = start..expression.span().end_offset as usize;
                self.references.variables.push(Variable { path, span });
            }
            return;
        }
        match expression {
            Expr::Var(_) | Expr::Const(_) => {}
            Expr::Slice(slice) => {
                self.expression(&slice.expr);
                let bounds = [&slice.start, &slice.stop, &slice.step];
                bounds.into_iter().flatten().for_each(|bound| self.expression(bound));
            }
            Expr::UnaryOp(operation) => self.expression(&operation.expr),
            Expr::BinOp(operation) => {
                self.expression(&operation.left);
                self.expression(&operation.right);
                self.check_constant(operation);
            }
            Expr::Compare(compare) => {
                self.expression(&compare.expr);
                compare.ops.iter().for_each(|operation| self.expression(&operation.expr));
            }
            Expr::IfExpr(choice) => {
                self.expression(&choice.test_expr);
                self.expression(&choice.true_expr);
                choice.false_expr.iter().for_each(|other| self.expression(other));
            }
            Expr::Filter(filter) => {
                filter.expr.iter().for_each(|input| self.expression(input));
                self.arguments(&filter.args);
                self.add_call(CallKind::Filter, filter.name, expression);
            }
            Expr::Test(test) => {
                self.expression(&test.expr);
                self.arguments(&test.args);
                self.add_call(CallKind::Test, test.name, expression);
            }
            Expr::GetAttr(get) => self.expression(&get.expr),
            Expr::GetItem(get) => {
                self.expression(&get.expr);
                self.expression(&get.subscript_expr);
            }
            Expr::Call(call) => self.call(call),
            Expr::List(list) => list.items.iter().for_each(|item| self.expression(item)),
            Expr::Tuple(tuple) => tuple.items.iter().for_each(|item| self.expression(item)),
            Expr::Map(map) => map.keys.iter().chain(&map.values).for_each(|item| self.expression(item)),
        }
    }

    fn call(&mut self, call: &Spanned<ast::Call<'s>>) {
        match &call.expr {
            Expr::Var(function) if !self.is_defined(function.id) => {
                let (name, span) = (function.id.to_string(), byte_range(function.span()));
                self.references.calls.push(Call { kind: CallKind::Function, name, span });
            }
            // The name of a method is no field.
            Expr::GetAttr(method) => self.expression(&method.expr),
            other => self.expression(other),
        }
        self.arguments(&call.args);
    }

    fn arguments(&mut self, arguments: &[ast::CallArg<'s>]) {
        for argument in arguments {
            match argument {
                ast::CallArg::Pos(value) | ast::CallArg::Kwarg(_, value) => self.expression(value),
                ast::CallArg::PosSplat(value) | ast::CallArg::KwargSplat(value) => {
                    self.reject("arguments cannot be unpacked from a list or mapping", value.span());
                }
            }
        }
    }

    fn add_call(&mut self, kind: CallKind, name: &str, expression: &Expr<'s>) {
        let Range { start, end } = byte_range(expression.span());
        // The name comes last, except for its arguments.
        let at = self.source.get(start..end).and_then(|text| text.rfind(name)).map_or(start, |at| start + at);
        self.references.calls.push(Call { kind, name: name.to_string(), span: at..at + name.len() });
    }
}

/// Returns the bytes of the source that a span covers.
fn byte_range(span: Span) -> Range<usize> {
    span.start_offset as usize..span.end_offset as usize
}

/// Splits `a.b['c']` into its segments, and returns the byte where it starts.
fn constant_path(expression: &Expr<'_>) -> Option<(Vec<String>, usize)> {
    let mut path = Vec::new();
    let mut at = expression;
    loop {
        match at {
            Expr::Var(variable) => {
                path.push(variable.id.to_string());
                path.reverse();
                return Some((path, variable.span().start_offset as usize));
            }
            Expr::GetAttr(get) => {
                path.push(get.name.to_string());
                at = &get.expr;
            }
            Expr::GetItem(get) => {
                let Expr::Const(name) = &get.subscript_expr else { return None };
                path.push(name.value.as_str()?.to_string());
                at = &get.expr;
            }
            _ => return None,
        }
    }
}
