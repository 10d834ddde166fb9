//! Lives of memory that begin and end, and their bytes, for the report `memory`.

/// Lives that begin and end, and their bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Balance {
    pub(super) current: u64,
    pub(super) most: u64,
    pub(super) opened: u64,
    pub(super) closed: u64,
    pub(super) partial: u64,
    pub(super) bytes: u64,
    pub(super) most_bytes: u64,
    pub(super) opened_bytes: u64,
    pub(super) closed_bytes: u64,
    pub(super) partial_bytes: u64,
}

impl Balance {
    pub(super) fn add(&mut self, opens: bool, length: u64) {
        if opens {
            self.opened += 1;
            self.current += 1;
            self.opened_bytes = self.opened_bytes.saturating_add(length);
            self.bytes = self.bytes.saturating_add(length);
            (self.most, self.most_bytes) = (self.most.max(self.current), self.most_bytes.max(self.bytes));
            return;
        }
        self.closed += 1;
        self.closed_bytes = self.closed_bytes.saturating_add(length);
        let missing = length.saturating_sub(self.bytes);
        if self.current == 0 || missing != 0 {
            self.partial += 1;
            self.partial_bytes = self.partial_bytes.saturating_add(missing);
        }
        (self.current, self.bytes) = (self.current.saturating_sub(1), self.bytes.saturating_sub(length));
    }

    pub(super) fn row(&self, name: &str) -> String {
        format!(
            "\"{name}_current_count\":{},\"{name}_high_water_count\":{},\"{name}_total_open_count\":{},\
             \"{name}_total_close_count\":{},\"{name}_partial_close_count\":{},\"{name}_current_bytes\":{},\
             \"{name}_high_water_bytes\":{},\"{name}_total_open_bytes\":{},\"{name}_total_close_bytes\":{},\
             \"{name}_partial_close_bytes\":{}",
            self.current,
            self.most,
            self.opened,
            self.closed,
            self.partial,
            self.bytes,
            self.most_bytes,
            self.opened_bytes,
            self.closed_bytes,
            self.partial_bytes
        )
    }

    pub(super) fn bytes_text(&self) -> String {
        format!(
            "current_bytes={} high_water_bytes={} opened_bytes={} closed_bytes={} partial_closes={} \
             partial_close_bytes={}",
            self.bytes, self.most_bytes, self.opened_bytes, self.closed_bytes, self.partial, self.partial_bytes
        )
    }

    pub(super) fn text(&self) -> String {
        format!("open_at_end={} peak_open={} {}", self.current, self.most, self.bytes_text())
    }
}
