//! Renders a frame.

use std::sync::Arc;

use jiff::Timestamp;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize as _};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Borders, Clear, Paragraph};
use serde_json::Value;
use watchkeeper_meta::{ObjectKey, Resource};

use super::Sources;
use super::screen::{Detail, Focus, Page, Screen};
use crate::board::{Board, Change, Entry, Happening, KindBoard, StreamState, readable};
use crate::feed::now;
use crate::table::{Row, Table};

const KINDS_WIDTH: u16 = 34;

/// Narrower terminals show one pane at a time.
const TWO_PANES: u16 = 90;

/// The most characters of a value in a list of changes, and in the history of an object.
const VALUE_IN_LIST: usize = 24;
const VALUE_IN_HISTORY: usize = 1000;

/// The largest number of fields per change in the list.
const FIELDS_SHOWN: usize = 3;

/// The narrowest that a column becomes so that others fit.
const MIN_COLUMN: usize = 18;

const HELP: &str = "\
\u{20}j k ↑ ↓        next, previous
 space PgUp     a page on, back
 g G            first, last
 Tab ← →        kinds, objects
 Enter          open
 o              objects
 e              changes; a with Events and heartbeats
 y h            the object's YAML, its history
 /              filter as you type; Esc clears
 p              pause
 q              quit, or back";

impl Screen {
    /// Draws everything. Row indexes beyond the end are clamped.
    pub fn draw(&mut self, frame: &mut Frame<'_>, sources: &Sources<'_>) {
        let [head, body, foot] =
            Layout::vertical([Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)])
                .areas(frame.area());
        let now = now();
        sources.live.read(|board| {
            frame.render_widget(head_line(board, sources.title, self.is_paused, now), head);
            self.choose_kind(board);
            self.draw_body(frame, body, board, sources, now);
        });
        frame.render_widget(self.foot_line(), foot);
        if self.shows_help {
            draw_help(frame);
        }
    }

    /// Chooses pods by default, or the first kind if there are none.
    fn choose_kind(&mut self, board: &Board) {
        if self.kind.as_deref().is_none_or(|name| board.kind(name).is_none()) {
            let first = board.kind("pods").or(board.kinds().first());
            self.kind = first.map(|kind| kind.name.clone());
        }
    }

    fn draw_body(
        &mut self,
        frame: &mut Frame<'_>,
        area: Rect,
        board: &Board,
        sources: &Sources<'_>,
        now: Timestamp,
    ) {
        if area.width < TWO_PANES {
            match (&self.detail, self.focus) {
                (None, Focus::Kinds) => self.draw_kinds(frame, area, board, now),
                _ => self.draw_main(frame, area, board, sources, now),
            }
            return;
        }
        let [left, right] =
            Layout::horizontal([Constraint::Length(KINDS_WIDTH), Constraint::Min(0)]).areas(area);
        self.draw_kinds(frame, left, board, now);
        self.draw_main(frame, right, board, sources, now);
    }

    fn draw_kinds(&mut self, frame: &mut Frame<'_>, area: Rect, board: &Board, now: Timestamp) {
        let block = block("Kinds", self.focus == Focus::Kinds && self.detail.is_none());
        let inner = block.inner(area);
        frame.render_widget(block, area);
        let shown: Vec<&KindBoard> = board.kinds().iter().filter(|kind| self.lists(kind)).collect();
        self.kinds.place(&shown, |kind| &kind.name, inner.height.into());
        if self.focus == Focus::Kinds {
            self.page_rows = inner.height.into();
        }
        self.kind_under_cursor = shown.get(self.kinds.row).map(|kind| kind.name.clone());
        let cursor = (self.focus == Focus::Kinds).then_some(self.kinds.row);
        let rows = window(&shown, self.kinds.first, inner.height).map(|(row, kind)| {
            let is_open = self.kind.as_ref() == Some(&kind.name);
            styled(
                kind_line(kind, inner.width.into(), now),
                cursor == Some(row),
                is_open,
            )
        });
        frame.render_widget(Paragraph::new(rows.collect::<Vec<_>>()), inner);
    }

    fn lists(&self, kind: &KindBoard) -> bool {
        let has_news = kind.count() > 0 || kind.events() > 0 || kind.state != StreamState::Live;
        has_news || self.kind.as_ref() == Some(&kind.name)
    }

    fn draw_main(
        &mut self,
        frame: &mut Frame<'_>,
        area: Rect,
        board: &Board,
        sources: &Sources<'_>,
        now: Timestamp,
    ) {
        if let Some(detail) = &mut self.detail {
            self.page_rows = draw_detail(frame, area, detail, board);
            return;
        }
        match (self.page, self.kind.as_deref().and_then(|name| board.kind(name))) {
            (Page::Objects, Some(kind)) => self.draw_objects(frame, area, kind, sources, now),
            (Page::Objects, None) => frame.render_widget(Paragraph::new("no kinds yet"), area),
            (Page::Changes, _) => self.draw_changes(frame, area, board),
        }
    }

    fn draw_objects(
        &mut self,
        frame: &mut Frame<'_>,
        area: Rect,
        kind: &KindBoard,
        sources: &Sources<'_>,
        now: Timestamp,
    ) {
        let resource: &Resource = &kind.resource;
        let stream = kind.name.clone();
        sources.tables.read(resource, |table| {
            let filter = self.filter.to_lowercase();
            let matching: Vec<&Row> = table.rows.values().filter(|row| row.contains(&filter)).collect();
            let block = block(
                &title(&stream, matching.len(), table, &kind.state),
                self.focus == Focus::Main,
            );
            let inner = block.inner(area);
            frame.render_widget(block, area);
            let height = usize::from(inner.height).saturating_sub(1);
            if self.focus == Focus::Main {
                self.page_rows = height;
            }
            self.objects.place(&matching, |row| &row.key, height);
            self.under_cursor = matching
                .get(self.objects.row)
                .map(|row| (stream.clone(), row.key.clone()));
            let visible: Vec<(usize, &Row)> = window(&matching, self.objects.first, height as u16)
                .map(|(number, row)| (number, *row))
                .collect();
            let lines = match (matching.is_empty() && table.synced, filter.is_empty()) {
                (true, true) => vec![Line::from("There are none.").dim()],
                (true, false) => vec![Line::from("Nothing matches the filter. Esc clears it.").dim()],
                (false, _) => table_lines(table, &visible, self.objects.row, (inner.width.into(), now)),
            };
            frame.render_widget(Paragraph::new(lines), inner);
        });
    }

    fn draw_changes(&mut self, frame: &mut Frame<'_>, area: Rect, board: &Board) {
        let filter = self.filter.to_lowercase();
        let entries = board.unseen(0, usize::MAX).entries;
        let matching = entries.iter().rev().filter(|entry| matches(entry, &filter));
        let (background, shown): (Vec<&Arc<Entry>>, Vec<_>) =
            matching.partition(|entry| !self.shows_background && entry.is_background());
        let title = match background.len() {
            0 => format!("Changes ({})", shown.len()),
            hidden => format!(
                "Changes ({}); a shows {hidden} Events and heartbeats",
                shown.len()
            ),
        };
        let block = block(&title, self.focus == Focus::Main);
        let inner = block.inner(area);
        frame.render_widget(block, area);
        if self.focus == Focus::Main {
            self.page_rows = inner.height.into();
        }
        self.changes
            .place(&shown, |entry| &entry.sequence, inner.height.into());
        self.under_cursor = shown.get(self.changes.row).and_then(|entry| object_of(entry));
        let lines = window(&shown, self.changes.first, inner.height)
            .map(|(row, entry)| styled(change_line(entry), row == self.changes.row, false));
        frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), inner);
    }

    fn foot_line(&self) -> Line<'static> {
        if self.is_typing || !self.filter.is_empty() {
            let cursor = if self.is_typing { "▏" } else { "" };
            return Line::from(format!("/{}{cursor}", self.filter)).bold();
        }
        Line::from(" ? keys  q quit  / filter  Tab kinds  Enter open  e changes  p pause").dim()
    }
}

fn head_line(board: &Board, title: &str, is_paused: bool, now: Timestamp) -> Line<'static> {
    let kinds = board.kinds();
    let objects: usize = kinds.iter().map(|kind| kind.count()).sum();
    let rate: f64 = kinds.iter().map(|kind| kind.rate(now)).sum();
    let count = |wanted: fn(&StreamState) -> bool| kinds.iter().filter(|kind| wanted(&kind.state)).count();
    let syncing = count(|state| *state == StreamState::Syncing);
    let failing = count(|state| matches!(state, StreamState::Failing { .. }));
    let mut text = format!(
        "  {} of {} · {rate:.1} changes/s",
        plural(objects, "object"),
        plural(kinds.len(), "kind")
    );
    if syncing > 0 {
        text += &format!(" · {syncing} syncing");
    }
    let mut line = vec![Span::from(format!(" {title}")).bold().cyan(), Span::from(text)];
    if failing > 0 {
        line.push(Span::from(format!(" · {failing} failing")).red());
    }
    if is_paused {
        line.push(Span::from(" · PAUSED").yellow().bold());
    }
    Line::from(line)
}

fn plural(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

fn block(title: &str, has_focus: bool) -> Block<'static> {
    let style = if has_focus {
        Style::new().cyan()
    } else {
        Style::new().dim()
    };
    Block::new()
        .borders(Borders::ALL)
        .border_style(style)
        .title(format!(" {title} "))
}

fn title(stream: &str, count: usize, table: &Table, state: &StreamState) -> String {
    match (&table.failure, state) {
        (Some(failure), _) => format!("{stream}: {failure}"),
        (None, StreamState::Failing { reason }) => format!("{stream}: {reason}"),
        _ if !table.synced => format!("{stream}: loading"),
        _ if count < table.rows.len() => format!("{stream} ({count} of {})", table.rows.len()),
        _ => format!("{stream} ({count})"),
    }
}

fn kind_line(kind: &KindBoard, width: usize, now: Timestamp) -> Line<'static> {
    let (mark, colour) = match kind.state {
        StreamState::Live => ("●", Color::Green),
        StreamState::Syncing => ("◌", Color::Yellow),
        StreamState::Failing { .. } => ("✖", Color::Red),
    };
    let rate = kind.rate(now);
    let rate = if rate >= 0.1 {
        format!("{rate:.1}/s")
    } else {
        String::new()
    };
    let numbers = match rate.is_empty() {
        true => format!(" {}", kind.count()),
        false => format!(" {rate} {:>5}", kind.count()),
    };
    let room = width.saturating_sub(numbers.len() + 2);
    let name = cut(&kind.name, room);
    Line::from(vec![
        Span::styled(format!("{mark} "), colour),
        Span::from(format!("{name:room$}")),
        Span::from(numbers),
    ])
}

/// The header and the visible rows, with columns as wide as the visible cells and the room allow.
fn table_lines(
    table: &Table,
    visible: &[(usize, &Row)],
    cursor: usize,
    (room, now): (usize, Timestamp),
) -> Vec<Line<'static>> {
    let columns = table.columns.as_deref().unwrap_or_default();
    let shown: Vec<usize> = (0..columns.len())
        .filter(|&index| columns[index].priority == 0)
        .collect();
    let spread = visible.iter().any(|(_, row)| !row.key.namespace().is_empty());
    let mut header: Vec<String> = shown
        .iter()
        .map(|&index| columns[index].name.to_uppercase())
        .collect();
    if spread {
        header.insert(0, "NAMESPACE".to_owned());
    }
    let rows: Vec<Vec<String>> = visible
        .iter()
        .map(|(_, row)| {
            let texts = row.texts(columns, now);
            let mut cells: Vec<String> = shown.iter().map(|&index| texts[index].clone()).collect();
            if spread {
                cells.insert(0, row.key.namespace().to_owned());
            }
            cells
        })
        .collect();
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = header
        .iter()
        .enumerate()
        .map(|(at, name)| width(at).max(name.chars().count()) + 2)
        .collect();
    let widths = fitted(widths, room);
    let line = |cells: &[String]| -> String {
        cells
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{:width$}", cut_middle(cell, width - 2)))
            .collect()
    };
    let mut lines = vec![Line::from(line(&header)).bold().dim()];
    lines.extend(
        rows.iter()
            .zip(visible)
            .map(|(cells, (number, _))| styled(Line::from(line(cells)), *number == cursor, false)),
    );
    lines
}

/// The widths, with the widest column narrowed if all of them need more than the room.
pub(super) fn fitted(mut widths: Vec<usize>, room: usize) -> Vec<usize> {
    let over = (widths.iter().sum::<usize>().saturating_sub(2)).saturating_sub(room);
    if let Some(widest) = widths.iter_mut().max() {
        *widest = widest.saturating_sub(over).max(MIN_COLUMN.min(*widest));
    }
    widths
}

fn change_line(entry: &Entry) -> Line<'static> {
    let time = Span::from(format!("{} ", clock(entry.at))).dim();
    match &entry.what {
        Happening::Change(change) => {
            let mut spans = vec![
                time,
                event_word(change.event),
                Span::from(format!("{} {}", entry.stream, change.key)),
            ];
            spans.push(Span::from(summary(change)).yellow());
            if let Some(who) = &change.who {
                spans.push(Span::from(format!("  by {who}")).dim());
            }
            Line::from(spans)
        }
        Happening::Restarted { reason } => Line::from(vec![
            time,
            event_word("RESTARTED"),
            Span::from(format!("{}: {reason}", entry.stream)),
        ]),
        Happening::Failed { reason } => Line::from(vec![
            time,
            event_word("FAILED"),
            Span::from(format!("{}: {reason}", entry.stream)),
        ]),
    }
}

fn event_word(event: &'static str) -> Span<'static> {
    let colour = match event {
        "ADDED" => Color::Green,
        "MODIFIED" => Color::Yellow,
        "DELETED" | "FAILED" => Color::Red,
        _ => Color::Cyan,
    };
    Span::styled(format!("{event:9} "), colour)
}

/// The first fields that changed: `  spec.replicas 1→3, …`.
fn summary(change: &Change) -> String {
    if change.inferred {
        return "  final state unknown".to_owned();
    }
    let changes = change.update().changes;
    if changes.is_empty() {
        return String::new();
    }
    let shown = changes.iter().take(FIELDS_SHOWN);
    let shown = shown.map(|field| {
        let value = |value| short(value, VALUE_IN_LIST);
        format!("{} {}→{}", field.path, value(&field.old), value(&field.new))
    });
    let more = if changes.len() > FIELDS_SHOWN { ", …" } else { "" };
    format!("  {}{more}", shown.collect::<Vec<_>>().join(", "))
}

fn short(value: &Option<Value>, width: usize) -> String {
    match value {
        None => "∅".to_owned(),
        Some(Value::String(text)) => cut(text, width),
        Some(other) => cut(&other.to_string(), width),
    }
}

/// Draws an object with its long lines wrapped; returns the number of rows.
fn draw_detail(frame: &mut Frame<'_>, area: Rect, detail: &mut Detail, board: &Board) -> usize {
    let what = if detail.shows_history { "history" } else { "YAML" };
    let block = block(&format!("{} {} – {what}", detail.stream, detail.key), true);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let lines = match detail.shows_history {
        true => history_lines(board, detail),
        false => yaml_lines(board, detail),
    };
    let lines: Vec<Line<'_>> = lines
        .into_iter()
        .flat_map(|line| wrapped(line, inner.width.into()))
        .collect();
    detail.scroll = detail.scroll.min(lines.len().saturating_sub(inner.height.into()));
    let visible: Vec<Line<'_>> = lines
        .into_iter()
        .skip(detail.scroll)
        .take(inner.height.into())
        .collect();
    frame.render_widget(Paragraph::new(Text::from(visible)), inner);
    inner.height.into()
}

/// A line in pieces of a width; the styles stay.
fn wrapped(line: Line<'static>, width: usize) -> Vec<Line<'static>> {
    let width = width.max(1);
    if line.width() <= width {
        return vec![line];
    }
    let (mut lines, mut current, mut room) = (Vec::new(), Line::default(), width);
    for span in line.spans {
        let mut piece = String::new();
        for letter in span.content.chars() {
            let needed = Span::raw(letter.to_string()).width();
            if needed > room {
                current.push_span(Span::styled(std::mem::take(&mut piece), span.style));
                lines.push(std::mem::take(&mut current));
                room = width;
            }
            room = room.saturating_sub(needed);
            piece.push(letter);
        }
        current.push_span(Span::styled(piece, span.style));
    }
    lines.push(current);
    lines
}

fn yaml_lines(board: &Board, detail: &Detail) -> Vec<Line<'static>> {
    let object = board
        .kind(&detail.stream)
        .and_then(|kind| kind.object(&detail.key));
    let text = match object {
        Some(object) => watchkeeper_wire::yaml::to_string(&readable(&object)),
        None => "This object is gone. Press h for its history.".to_owned(),
    };
    text.lines().map(|line| Line::from(line.to_owned())).collect()
}

fn history_lines(board: &Board, detail: &Detail) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for entry in board.history(&detail.stream, &detail.key).iter().rev() {
        lines.push(change_line(entry));
        if let Happening::Change(change) = &entry.what {
            lines.extend(change.update().changes.iter().map(|field| {
                Line::from(vec![
                    Span::from(format!("    {} ", field.path)),
                    Span::from(short(&field.old, VALUE_IN_HISTORY)).red(),
                    Span::from(" → ").dim(),
                    Span::from(short(&field.new, VALUE_IN_HISTORY)).green(),
                ])
            }));
        }
    }
    if lines.is_empty() {
        lines.push(Line::from("It has not changed since watchkeeper began to look."));
    }
    lines
}

fn draw_help(frame: &mut Frame<'_>) {
    let area = frame.area();
    let (width, height) = (58.min(area.width), 13.min(area.height));
    let middle = Rect::new(
        (area.width - width) / 2,
        (area.height - height) / 2,
        width,
        height,
    );
    frame.render_widget(Clear, middle);
    frame.render_widget(Paragraph::new(HELP).block(block("Keys", true)), middle);
}

fn styled(line: Line<'static>, is_cursor: bool, is_open: bool) -> Line<'static> {
    match (is_cursor, is_open) {
        (true, _) => line.style(Style::new().add_modifier(Modifier::REVERSED)),
        (false, true) => line.bold(),
        (false, false) => line,
    }
}

fn window<T>(rows: &[T], first: usize, height: u16) -> impl Iterator<Item = (usize, &T)> {
    rows.iter().enumerate().skip(first).take(height.into())
}

fn matches(entry: &Entry, filter: &str) -> bool {
    if filter.is_empty() {
        return true;
    }
    let text = match &entry.what {
        Happening::Change(change) => {
            format!(
                "{} {} {} {}",
                entry.stream,
                change.event,
                change.key,
                change.who.as_deref().unwrap_or_default()
            )
        }
        Happening::Restarted { reason } | Happening::Failed { reason } => {
            format!("{} {reason}", entry.stream)
        }
    };
    text.to_lowercase().contains(filter)
}

fn object_of(entry: &Entry) -> Option<(Arc<str>, ObjectKey)> {
    match &entry.what {
        Happening::Change(change) => Some((entry.stream.clone(), change.key.clone())),
        Happening::Restarted { .. } | Happening::Failed { .. } => None,
    }
}

/// The time of day, in UTC.
fn clock(at: Timestamp) -> String {
    at.strftime("%H:%M:%S%.3f").to_string()
}

/// Cut in the middle: names of one owner differ at the end.
pub(super) fn cut_middle(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let tail = width.saturating_sub(1) / 2;
    let head = text.chars().take(width.saturating_sub(tail + 1));
    head.chain(['…'])
        .chain(text.chars().skip(length - tail))
        .collect()
}

fn cut(text: &str, width: usize) -> String {
    match text.chars().count() > width {
        true => text.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
        false => text.to_owned(),
    }
}
