//! Key handling. The keys are those of less and k9s.

use std::sync::Arc;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use watchkeeper_meta::ObjectKey;

/// The state of the screen, without the data.
#[derive(Debug, Default)]
pub struct Screen {
    /// The stream whose objects are shown; `None` until one is chosen.
    pub(super) kind: Option<Arc<str>>,
    pub(super) focus: Focus,
    pub(super) page: Page,
    /// Row indexes. Drawing clamps them.
    pub(super) kinds: Cursor<Arc<str>>,
    pub(super) objects: Cursor<ObjectKey>,
    pub(super) changes: Cursor<u64>,
    pub(super) detail: Option<Detail>,
    pub(super) filter: String,
    pub(super) is_typing: bool,
    pub(super) is_paused: bool,
    pub(super) shows_help: bool,
    /// Events and heartbeats are among the changes, too.
    pub(super) shows_background: bool,
    /// Set by drawing: the number of visible rows, the distance of PageUp and PageDown.
    pub(super) page_rows: usize,
    /// Set by drawing: the object that Enter opens.
    pub(super) under_cursor: Option<(Arc<str>, ObjectKey)>,
    pub(super) kind_under_cursor: Option<Arc<str>>,
}

/// The reason the view ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The user quits.
    Quit,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Focus {
    Kinds,
    #[default]
    Main,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Page {
    #[default]
    Objects,
    Changes,
}

/// A row, and the first row that is visible.
#[derive(Debug)]
pub(super) struct Cursor<T> {
    pub(super) row: usize,
    pub(super) first: usize,
    /// The row and its item when they were drawn last.
    drawn: Option<(usize, T)>,
}

impl<T> Default for Cursor<T> {
    fn default() -> Self {
        Self {
            row: 0,
            first: 0,
            drawn: None,
        }
    }
}

impl<T: PartialEq> Cursor<T> {
    /// Places the cursor among these items. It stays on its item when others come and go before it; on the first row
    /// it stays there, and shows what is new.
    pub(super) fn place<I>(&mut self, items: &[I], id_of: impl Fn(&I) -> &T, height: usize)
    where
        T: Clone,
    {
        if let Some((was, item)) = &self.drawn
            && self.row > 0
            && items.get(*was).map(&id_of) != Some(item)
            && let Some(now) = items.iter().position(|other| id_of(other) == item)
        {
            let by = now.cast_signed() - was.cast_signed();
            self.row = self.row.saturating_add_signed(by);
            self.first = self.first.saturating_add_signed(by);
        }
        self.fit(items.len(), height);
        self.drawn = items.get(self.row).map(|item| (self.row, id_of(item).clone()));
    }

    /// Keeps the row within `count` rows and within a window of `height`.
    pub(super) fn fit(&mut self, count: usize, height: usize) {
        self.row = self.row.min(count.saturating_sub(1));
        let height = height.max(1);
        let last_first = self.row.saturating_sub(height - 1);
        self.first = self.first.clamp(last_first, self.row);
        self.first = self.first.min(count.saturating_sub(height).max(last_first));
    }

    fn step(&mut self, by: isize) {
        self.row = self.row.saturating_add_signed(by);
    }
}

/// One object in full.
#[derive(Clone, Debug)]
pub(super) struct Detail {
    pub(super) stream: Arc<str>,
    pub(super) key: ObjectKey,
    pub(super) shows_history: bool,
    pub(super) scroll: usize,
}

impl Screen {
    /// Starts with a kind, if it is watched.
    pub fn new(kind: Option<&str>) -> Self {
        Self {
            kind: kind.map(Into::into),
            ..Self::default()
        }
    }

    /// True if the display is paused.
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Handles a key.
    pub fn key(&mut self, key: KeyEvent) -> Option<Ending> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return self.control(key.code);
        }
        if self.is_typing {
            self.typed(key.code);
            return None;
        }
        if std::mem::take(&mut self.shows_help) {
            return None;
        }
        self.command(key.code)
    }

    fn control(&mut self, code: KeyCode) -> Option<Ending> {
        match code {
            KeyCode::Char('c') => return Some(Ending::Quit),
            KeyCode::Char('d' | 'f') => self.step(self.page_length()),
            KeyCode::Char('u' | 'b') => self.step(-self.page_length()),
            _ => {}
        }
        None
    }

    fn typed(&mut self, code: KeyCode) {
        match code {
            KeyCode::Char(letter) => self.filter.push(letter),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.filter.clear();
            }
            _ => {}
        }
    }

    fn command(&mut self, code: KeyCode) -> Option<Ending> {
        match code {
            KeyCode::Char('q') if self.detail.is_none() => return Some(Ending::Quit),
            KeyCode::Char('q') | KeyCode::Esc => self.back(),
            KeyCode::Char('j') | KeyCode::Down => self.step(1),
            KeyCode::Char('k') | KeyCode::Up => self.step(-1),
            KeyCode::Char(' ') | KeyCode::PageDown => self.step(self.page_length()),
            KeyCode::PageUp => self.step(-self.page_length()),
            KeyCode::Char('g') | KeyCode::Home => self.step(isize::MIN),
            KeyCode::Char('G') | KeyCode::End => self.step(isize::MAX),
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char('p') => self.is_paused = !self.is_paused,
            KeyCode::Char('a') => self.shows_background = !self.shows_background,
            KeyCode::Char('?') => self.shows_help = true,
            KeyCode::Char('e' | 'c') => self.turn_to(Page::Changes),
            KeyCode::Char('o') => self.turn_to(Page::Objects),
            KeyCode::Char('h') => self.show_history(true),
            KeyCode::Char('y') => self.show_history(false),
            KeyCode::Tab | KeyCode::BackTab | KeyCode::Left | KeyCode::Right => self.switch_focus(),
            KeyCode::Enter => self.open(),
            _ => {}
        }
        None
    }

    fn page_length(&self) -> isize {
        self.page_rows.max(1).cast_signed()
    }

    fn back(&mut self) {
        if self.detail.take().is_none() {
            self.filter.clear();
        }
    }

    fn step(&mut self, by: isize) {
        match (&mut self.detail, self.focus, self.page) {
            (Some(detail), ..) => detail.scroll = detail.scroll.saturating_add_signed(by),
            (None, Focus::Kinds, _) => {
                self.kinds.step(by);
                self.kind_under_cursor = None;
            }
            (None, Focus::Main, Page::Objects) => self.objects.step(by),
            (None, Focus::Main, Page::Changes) => self.changes.step(by),
        }
    }

    fn turn_to(&mut self, page: Page) {
        self.detail = None;
        self.focus = Focus::Main;
        self.page = page;
    }

    fn switch_focus(&mut self) {
        self.focus = match self.focus {
            Focus::Kinds => Focus::Main,
            Focus::Main => Focus::Kinds,
        };
    }

    fn show_history(&mut self, wanted: bool) {
        if self.detail.is_none() {
            self.open();
        }
        if let Some(detail) = &mut self.detail {
            detail.shows_history = wanted;
            detail.scroll = 0;
        }
    }

    fn open(&mut self) {
        if self.detail.is_some() {
            return;
        }
        if self.focus == Focus::Kinds {
            self.kind = self.kind_under_cursor.clone().or(self.kind.take());
            self.objects = Cursor::default();
            self.turn_to(Page::Objects);
            return;
        }
        if let Some((stream, key)) = self.under_cursor.clone() {
            self.detail = Some(Detail {
                stream,
                key,
                shows_history: self.page == Page::Changes,
                scroll: 0,
            });
        }
    }
}
