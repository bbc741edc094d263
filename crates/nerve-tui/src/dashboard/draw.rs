//! Draws the dashboard.

use nerve_api::value::NodeState;
use nerve_types::activity::TsMs;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph, Row, StatefulWidget, Table, TableState, Widget, Wrap};
use unicode_width::UnicodeWidthStr;

use super::age;
use super::panel::Panel;
use super::row::{NodeRow, machine_of};
use super::state::Dashboard;
use crate::terminal::Cursor;
use crate::view::truncate::cut;

/// Windows with fewer rows have no details of the selected node.
const MIN_ROWS_FOR_DETAILS: u16 = 14;
/// Windows with fewer columns show names and states only.
const MIN_COLS_FOR_AGES: u16 = 40;
/// Windows with fewer columns have no summary column.
const MIN_COLS_FOR_SUMMARY: u16 = 60;
/// Windows with fewer columns show folder and branch in the details only.
const MIN_COLS_FOR_FOLDERS: u16 = 110;

/// Rows of the details.
const DETAIL_ROWS: u16 = 4;

/// States whose nodes the header counts.
const HEADER_STATES: [NodeState; 5] =
    [NodeState::Blocked, NodeState::Busy, NodeState::Ready, NodeState::Suspended, NodeState::Stopped];

const DIM: Style = Style::new().add_modifier(Modifier::DIM);

impl Dashboard {
    /// Draws a frame of the size of the buffer. Returns the cursor of an entry.
    pub(super) fn draw(&self, now: TsMs, buffer: &mut Buffer) -> Option<Cursor> {
        let area = buffer.area;
        let has_details = area.height >= MIN_ROWS_FOR_DETAILS && self.selected_row().is_some();
        let details = if has_details { DETAIL_ROWS } else { 0 };
        let unreachable = u16::try_from(self.unreachable_machines().count()).unwrap_or(u16::MAX);
        let [header, list, machines, details, footer] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Min(1),
            Constraint::Length(unreachable.min(area.height / 3)),
            Constraint::Length(details),
            Constraint::Length(1),
        ])
        .areas(area);
        self.draw_header(header, buffer);
        self.draw_list(now, list, buffer);
        self.draw_machines(machines, buffer);
        if let Some(row) = self.selected_row().filter(|_| has_details) {
            draw_details(row, details, buffer);
        }
        self.draw_footer(footer, buffer);
        self.draw_panel(area, footer, buffer)
    }

    fn draw_header(&self, area: Rect, buffer: &mut Buffer) {
        let nodes = if self.node_count() == 1 {
            "  1 node".to_string()
        } else {
            format!("  {} nodes", self.node_count())
        };
        let mut spans = vec![Span::styled("nerve top", Modifier::BOLD), Span::raw(nodes)];
        for state in HEADER_STATES {
            let count = self.count(state);
            if count > 0 {
                spans.push(Span::raw("  "));
                spans.push(Span::styled(format!("{count} {}", state.as_str()), style(state)));
            }
        }
        for (server, fault) in self.server_errors().filter(|(server, _)| machine_of(server).is_none()) {
            spans.push(Span::styled(format!("  server '{server}': {fault}"), Color::Red));
        }
        Line::from(spans).render(area, buffer);
    }

    /// Draws a row for each machine that does not respond.
    fn draw_machines(&self, area: Rect, buffer: &mut Buffer) {
        for (row, (machine, fault)) in area.rows().zip(self.unreachable_machines()) {
            let text = cut(&format!("{machine}  {fault}"), usize::from(area.width));
            Span::styled(text, Color::Red).render(row, buffer);
        }
    }

    fn draw_list(&self, now: TsMs, area: Rect, buffer: &mut Buffer) {
        if self.visible_rows().next().is_none() {
            let text = match (self.node_count(), self.has_loaded_server()) {
                (0, true) => "no nodes; press n to create one",
                (0, false) => "no server is running; press n to start one with a node",
                _ => "no node matches the filter; Esc clears it",
            };
            return Paragraph::new(text).style(DIM).wrap(Wrap { trim: true }).render(area, buffer);
        }
        let has_costs = self.visible_rows().any(|row| !row.info.progress.cost_text().is_empty());
        let columns = Column::for_width(area.width, self.has_non_default_session(), has_costs);
        let rows: Vec<Vec<String>> = self
            .visible_rows()
            .map(|row| columns.iter().map(|column| column.text(row, now)).collect())
            .collect();
        let widths = columns.iter().enumerate().map(|(index, column)| {
            let width = rows.iter().map(|row| row[index].width()).max().unwrap_or_default();
            column.width(width.max(column.title().len()))
        });
        let styles = self
            .visible_rows()
            .map(|row| (style(row.info.state), if row.is_stopped() { DIM } else { Style::new() }));
        let cells = rows.iter().zip(styles).map(|(row, (state, others))| {
            Row::new(row.iter().zip(&columns).map(|(text, column)| {
                Span::styled(text.clone(), if *column == Column::State { state } else { others })
            }))
        });
        let table = Table::new(cells, widths)
            .header(Row::new(columns.iter().map(Column::title)).style(DIM))
            .row_highlight_style(Modifier::REVERSED)
            .column_spacing(2);
        let mut state = TableState::new().with_selected(self.selected_position());
        StatefulWidget::render(table, area, buffer, &mut state);
    }

    fn draw_footer(&self, area: Rect, buffer: &mut Buffer) {
        let keys =
            "enter attach  a answer  p prompt  n new  s stop  w why  r recording  / filter  ? keys  q quit";
        let text = match self.message.as_deref() {
            Some(message) => Span::raw(cut(message, usize::from(area.width))),
            None if !self.filter.is_empty() => Span::styled(format!("filter: {}", self.filter), DIM),
            None => Span::styled(cut(keys, usize::from(area.width)), DIM),
        };
        text.render(area, buffer);
    }

    /// Draws the open panel: an entry in the footer, or rows above it.
    fn draw_panel(&self, area: Rect, footer: Rect, buffer: &mut Buffer) -> Option<Cursor> {
        let lines: Vec<Line<'_>> = match self.panel.as_ref()? {
            Panel::Entry(entry, line) => {
                let label = entry.label();
                let before = format!("{label}{}", &line.text()[..line.cursor()]);
                let room = footer.width.saturating_sub(1);
                // A long line is scrolled so that its cursor is visible.
                let col = u16::try_from(before.width()).unwrap_or(u16::MAX);
                Clear.render(footer, buffer);
                Paragraph::new(format!("{label}{}", line.text()))
                    .scroll((0, col.saturating_sub(room)))
                    .render(footer, buffer);
                return Some(Cursor { col: col.min(room), row: footer.y, style: 0 });
            }
            Panel::ConfirmStop(key) => vec![Line::from(format!("stop node '{}'? y stops it", key.node))],
            Panel::Choices { key, choices, selected } => {
                let choices = choices.iter().enumerate().map(|(index, choice)| {
                    let style = if index == *selected { Modifier::REVERSED } else { Modifier::empty() };
                    Line::styled(format!("{}. {choice}", index + 1), style)
                });
                std::iter::once(Line::styled(format!("answer of '{}':", key.node), DIM))
                    .chain(choices)
                    .collect()
            }
            Panel::Text { title, text, scrolled } => {
                let lines = text.lines().skip(*scrolled).map(Line::from);
                std::iter::once(Line::styled(format!("{title} (j and k scroll, any other key closes)"), DIM))
                    .chain(lines)
                    .collect()
            }
        };
        let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).min(area.height.saturating_sub(3).max(1));
        let rows = Rect { y: footer.y.saturating_sub(height), height, ..area };
        Clear.render(rows, buffer);
        Paragraph::new(lines).render(rows, buffer);
        None
    }
}

/// Draws the details of the selected node.
fn draw_details(row: &NodeRow, area: Rect, buffer: &mut Buffer) {
    let progress = &row.info.progress;
    let branch = row.branch.as_deref().map(|branch| format!("  ({branch})")).unwrap_or_default();
    let lines = [
        ("prompt", progress.last_prompt.clone().unwrap_or_default()),
        ("answer", progress.last_line.clone().unwrap_or_default()),
        ("folder", format!("{}{branch}", row.detail("cwd"))),
        ("command", row.detail("command").to_string()),
    ];
    let lines =
        lines.map(|(label, text)| Line::from(vec![Span::styled(format!("{label:8}"), DIM), Span::raw(text)]));
    Paragraph::new(lines.to_vec()).render(area, buffer);
}

fn style(state: NodeState) -> Style {
    match state {
        NodeState::Blocked => Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD),
        NodeState::Busy | NodeState::Starting | NodeState::Stopping => Style::new().fg(Color::Cyan),
        NodeState::Ready => Style::new().fg(Color::Green),
        NodeState::Suspended => Style::new().fg(Color::Magenta),
        _ => DIM,
    }
}

/// Formats a count in thousands or millions: `950`, `12k`, `3.4M`.
fn format_tokens(tokens: u64) -> String {
    match tokens {
        ..1000 => tokens.to_string(),
        1000..1_000_000 => format!("{}k", tokens / 1000),
        _ => format!("{:.1}M", tokens as f64 / 1e6),
    }
}

/// A column of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Place,
    Node,
    State,
    Age,
    Turn,
    Queued,
    Tokens,
    Cost,
    Folder,
    Branch,
    Summary,
}

impl Column {
    /// Returns the columns for a window of this width.
    fn for_width(cols: u16, has_places: bool, has_costs: bool) -> Vec<Column> {
        let columns = [
            (Column::Place, if has_places { MIN_COLS_FOR_SUMMARY } else { u16::MAX }),
            (Column::Node, 0),
            (Column::State, 0),
            (Column::Age, MIN_COLS_FOR_AGES),
            (Column::Turn, MIN_COLS_FOR_SUMMARY),
            (Column::Queued, MIN_COLS_FOR_SUMMARY),
            (Column::Tokens, MIN_COLS_FOR_FOLDERS),
            (Column::Cost, if has_costs { MIN_COLS_FOR_SUMMARY } else { u16::MAX }),
            (Column::Folder, MIN_COLS_FOR_FOLDERS),
            (Column::Branch, MIN_COLS_FOR_FOLDERS),
            (Column::Summary, MIN_COLS_FOR_SUMMARY),
        ];
        columns.into_iter().filter(|(_, min)| cols >= *min).map(|(column, _)| column).collect()
    }

    fn title(&self) -> &'static str {
        match self {
            Column::Place => "SERVER/SESSION",
            Column::Node => "NODE",
            Column::State => "STATE",
            Column::Age => "AGE",
            Column::Turn => "TURN",
            Column::Queued => "QUEUE",
            Column::Tokens => "TOKENS",
            Column::Cost => "COST",
            Column::Folder => "FOLDER",
            Column::Branch => "BRANCH",
            Column::Summary => "LAST",
        }
    }

    fn text(self, row: &NodeRow, now: TsMs) -> String {
        match self {
            Column::Place => {
                let server = machine_of(&row.key.server).unwrap_or(&row.key.server);
                format!("{server}/{}", row.key.session)
            }
            Column::Node => row.key.node.clone(),
            Column::State => row.state_text(),
            Column::Age => row.state_age(now).map(age::format).unwrap_or_default(),
            Column::Turn => row.turn_age(now).map(age::format).unwrap_or_default(),
            Column::Queued => row.info.metadata.display("queued"),
            Column::Tokens => row.info.progress.tokens.map(format_tokens).unwrap_or_default(),
            Column::Cost => row.info.progress.cost_text(),
            Column::Folder => row.detail("cwd").rsplit('/').next().unwrap_or_default().to_string(),
            Column::Branch => row.branch.clone().unwrap_or_default(),
            Column::Summary => row.summary().to_string(),
        }
    }

    /// Returns the width of a column whose longest text has this many columns.
    fn width(self, longest: usize) -> Constraint {
        let longest = u16::try_from(longest).unwrap_or(u16::MAX);
        match self {
            Column::Summary => Constraint::Fill(1),
            Column::Place | Column::Node | Column::State => Constraint::Length(longest.min(28)),
            _ => Constraint::Length(longest.min(20)),
        }
    }
}

#[cfg(test)]
mod tests {
    use nerve_api::reply::NodeProgress;

    use super::super::row::examples;
    use super::*;

    fn row(node: &str, state: NodeState, details: &[(&str, &str)], progress: NodeProgress) -> NodeRow {
        let mut row = examples::row(node, state, progress);
        details.iter().for_each(|(name, value)| row.info.metadata.set(name, *value));
        row
    }

    fn dashboard() -> Dashboard {
        let mut dashboard = Dashboard::default();
        let blocked = NodeProgress {
            state_changed_at: Some(TsMs(0)),
            turn_started_at: Some(TsMs(0)),
            last_prompt: Some("fix the test".to_string()),
            last_line: None,
            tokens: Some(12_345),
            cost_usd: Some(0.5),
            has_unpriced: true,
            ..NodeProgress::default()
        };
        let ready =
            NodeProgress { last_line: Some("All tests pass.".to_string()), ..NodeProgress::default() };
        let claude =
            [("blocked", "permission"), ("cwd", "/src/shop"), ("command", "claude"), ("queued", "2")];
        let mut claude = row("claude", NodeState::Blocked, &claude, blocked);
        claude.branch = Some("main".to_string());
        dashboard.set_nodes("default", vec![claude, row("sh", NodeState::Ready, &[], ready)]);
        dashboard
    }

    fn draw(dashboard: &Dashboard, cols: u16, rows: u16) -> Vec<String> {
        let mut buffer = Buffer::empty(Rect::new(0, 0, cols, rows));
        dashboard.draw(TsMs(65_000), &mut buffer);
        let row = |y| (0..cols).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_string();
        (0..rows).map(row).collect()
    }

    #[test]
    fn wide_window_shows_everything() {
        let rows = draw(&dashboard(), 120, 16);
        assert_eq!(rows[0], "nerve top  2 nodes  1 blocked  1 ready");
        let [claude, sh] = [&rows[2], &rows[3]];
        for text in
            ["claude", "blocked: permission", "1m", "12k", "$0.50 + ?", "shop", "main", "fix the test"]
        {
            assert!(claude.contains(text), "{text} in {claude}");
        }
        assert!(sh.ends_with("All tests pass."), "{sh}");
        assert!(rows[13].ends_with("/src/shop  (main)"), "{rows:#?}");
    }

    #[test]
    fn stopped_nodes_are_dimmed_and_counted() {
        let mut dashboard = dashboard();
        dashboard.set_node(examples::row_in("old", NodeState::Stopped));
        let mut buffer = Buffer::empty(Rect::new(0, 0, 120, 16));
        dashboard.draw(TsMs(65_000), &mut buffer);
        let is_dim = |y| buffer[(0, y)].modifier.contains(Modifier::DIM);
        assert_eq!((is_dim(3), is_dim(4), buffer[(0, 4)].symbol()), (false, true, "o"));
        assert_eq!(draw(&dashboard, 120, 16)[0], "nerve top  3 nodes  1 blocked  1 ready  1 stopped");
    }

    #[test]
    fn narrow_window_shows_names_and_states() {
        let rows = draw(&dashboard(), 20, 6);
        assert!(rows[2].starts_with("claude  blocked"), "{rows:#?}");
        assert!(rows[3].starts_with("sh      ready"), "{rows:#?}");
        // Too small for anything: must not panic.
        for (cols, rows) in [(1, 1), (2, 3), (0, 0), (200, 2)] {
            draw(&dashboard(), cols, rows);
        }
    }

    #[test]
    fn panels_cover_the_bottom() {
        let mut dashboard = dashboard();
        let key = dashboard.selected_row().unwrap().key.clone();
        dashboard.show_choices(key, vec!["Yes".to_string(), "No".to_string()]);
        let rows = draw(&dashboard, 80, 20);
        assert_eq!(rows[16..19], ["answer of 'claude':", "1. Yes", "2. No"]);
        dashboard.panel = None;
        dashboard.show_text("evidence", (0..100).map(|n| format!("{n}\n")).collect::<String>());
        let rows = draw(&dashboard, 80, 20);
        assert_eq!((rows[0].starts_with("nerve top"), rows[3].as_str()), (true, "0"));
    }

    #[test]
    fn empty_list_explains_itself() {
        let mut dashboard = Dashboard::default();
        assert!(draw(&dashboard, 80, 5)[1].starts_with("no server is running"));
        dashboard.set_nodes("default", Vec::new());
        assert!(draw(&dashboard, 80, 5)[1].starts_with("no nodes"));
        dashboard.set_server_error("other", "no reply".to_string());
        assert!(draw(&dashboard, 80, 5)[0].contains("server 'other': no reply"));
    }

    #[test]
    fn machine_is_in_the_place_or_a_row_of_its_own() {
        let mut dashboard = dashboard();
        let mut row = examples::row_in("far", NodeState::Ready);
        row.key.server = "machine://work".to_string();
        dashboard.set_node(row);
        dashboard.set_server_error("machine://off", "unreachable, last contact 5m ago".to_string());
        let rows = draw(&dashboard, 120, 16);
        assert!(rows.iter().any(|row| row.starts_with("work/") && row.contains("far")), "{rows:#?}");
        assert!(rows[10].starts_with("off  unreachable, last contact 5m ago"), "{rows:#?}");
        assert!(!rows[0].contains("off"), "{rows:#?}");
    }
}
