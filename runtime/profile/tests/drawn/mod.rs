//! Profiles that follow from a seed alone: devices with and without clocks, names of all kinds, and events of each type
//! in random order. Sizes are log-uniform from one.

use std::io::Cursor;

use vireo_profile::format::{
    DependencyStrategy, MemoryEventType, MetricUnit, MetricValueKind, QueueEventType, RecordHeader, RecordType,
};
use vireo_profile::records::{
    ClockCorrelation, CommandBuffer, CommandRegionEvent, Device, DeviceMetricDescriptor, DeviceMetricSample,
    DeviceMetricSource, DeviceMetricValue, DispatchEvent, Executable, ExecutableFunction, HostExecutionEvent,
    MemoryEvent, Queue, QueueDeviceEvent, QueueEvent,
};
use vireo_profile::{Content, ProfileWriter};

/// Names as programs have them, and hostile ones.
pub const NAMES: [&[u8]; 10] = [
    b"matmul_dispatch_0_matmul_64x64x32_f32",
    b"softmax$async_dispatch_1_elementwise_4x8",
    b"",
    b"</script><script>document.title='owned'</script>",
    b"<!--<script>",
    b"quote\"back\\slash\nline\ttab\x00nul\x7f",
    "\u{2028}\u{2029}\u{202e}\u{feff}é日本🦀".as_bytes(),
    b"\xff\xfe\x80 no utf-8 \xc3",
    b"&lt;b&gt;'`${alert(1)}`",
    b"]]>--></style>",
];

/// A source of numbers.
pub struct Draw(u64);

impl Draw {
    /// Numbers of a seed.
    pub fn new(seed: u64) -> Draw {
        Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// A number from one to about `2^bits`, log-uniform.
    pub fn size(&mut self, bits: u64) -> u64 {
        let bits = self.below(bits + 1);
        (1 << bits) + self.below(1 << bits)
    }
}

/// A drawn profile, and how many events of each type it has.
#[derive(Debug, Default)]
pub struct Drawn {
    pub bytes: Vec<u8>,
    pub queue_events: u64,
    pub queue_device_events: u64,
    pub host_executions: u64,
    pub dispatches: u64,
    pub regions: u64,
    pub memory_events: u64,
    pub metric_values: u64,
}

/// A chunk: its type, its header and its records.
type Chunk = (Content, RecordHeader, Vec<u8>);

/// Draws a number of events of a type.
type Events = fn(&mut Draw, &mut Places, &mut Drawn, u64) -> Chunk;

/// Places of events.
struct Places {
    queues: Vec<(u32, u32, u64)>,
    functions: Vec<(u64, u32)>,
    command_buffers: u64,
    now: i64,
    event: u64,
}

fn header(record_type: RecordType) -> RecordHeader {
    RecordHeader { record_type: record_type.0, session_id: 1, ..RecordHeader::default() }
}

/// A profile of a seed with at most about `2^bits` events of each type.
pub fn draw(seed: u64, bits: u64) -> Drawn {
    let mut draw = Draw::new(seed);
    let mut drawn = Drawn::default();
    let mut writer = ProfileWriter::new(Cursor::new(Vec::new())).expect("memory can be written");
    writer.record(&header(RecordType::SESSION_BEGIN), "session", "device", &[]).expect("memory can be written");
    let mut places = metadata(&mut draw, &mut writer);
    for _ in 0..draw.size(3) {
        let all: [Events; 7] =
            [queue_events, queue_device_events, host_executions, dispatches, regions, memory_events, metric_samples];
        for events in all {
            if draw.one_in(3) {
                continue;
            }
            let count = draw.size(bits);
            let (content, mut chunk, records) = events(&mut draw, &mut places, &mut drawn, count);
            if draw.one_in(20) {
                (chunk.chunk_flags, chunk.dropped_record_count) = (1, draw.size(10));
            }
            writer.chunk(&chunk, content, "device", &records).expect("memory can be written");
        }
    }
    let session_status_code = if draw.one_in(8) { 2 } else { 0 };
    let end = RecordHeader { session_status_code, ..header(RecordType::SESSION_END) };
    writer.record(&end, "session", "device", &[]).expect("memory can be written");
    drawn.bytes = writer.finish().expect("memory can be written").into_inner();
    drawn
}

fn metadata(draw: &mut Draw, writer: &mut ProfileWriter<Cursor<Vec<u8>>>) -> Places {
    let mut chunk = |content: Content, records: &[u8]| {
        writer.chunk(&header(RecordType::CHUNK), content, "device", records).expect("memory can be written");
    };
    let now = 1_000_000 + draw.size(50).cast_signed();
    let mut places = Places { queues: Vec::new(), functions: Vec::new(), command_buffers: 0, now, event: 0 };
    let (mut devices, mut queues, mut clocks) = (Vec::new(), Vec::new(), Vec::new());
    for device in 0..1 + draw.below(3) as u32 {
        let queue_count = 1 + draw.below(2) as u32;
        devices.extend(
            Device {
                record_length: Device::SIZE as u32,
                physical_device_ordinal: device,
                queue_count,
                ..Device::default()
            }
            .to_bytes(),
        );
        for queue in 0..queue_count {
            let stream = draw.below(2);
            places.queues.push((device, queue, stream));
            let queue = Queue {
                record_length: Queue::SIZE as u32,
                physical_device_ordinal: device,
                queue_ordinal: queue,
                stream_id: stream,
                ..Queue::default()
            };
            queues.extend(queue.to_bytes());
        }
        let (rate, first) = (1 + draw.below(40), draw.size(40));
        for sample in 0..draw.below(4) {
            clocks.extend(
                ClockCorrelation {
                    record_length: ClockCorrelation::SIZE as u32,
                    flags: if draw.one_in(10) { 27 } else { 11 },
                    physical_device_ordinal: device,
                    sample_id: sample + 1,
                    device_tick: first + sample * 1_000_000,
                    host_cpu_timestamp_ns: places.now as u64 + sample * 100_000 * rate,
                    host_time_begin_ns: places.now + (sample * 100_000 * rate) as i64,
                    host_time_end_ns: places.now + (sample * 100_000 * rate) as i64 + 40,
                    ..ClockCorrelation::default()
                }
                .to_bytes(),
            );
        }
    }
    chunk(Content::Devices, &devices);
    chunk(Content::Queues, &queues);
    chunk(Content::ClockCorrelations, &clocks);
    let (mut executables, mut functions) = (Vec::new(), Vec::new());
    for executable in 1..=1 + draw.below(3) {
        let count = draw.size(3) as u32;
        executables.extend(
            Executable {
                record_length: Executable::SIZE as u32,
                executable_id: executable,
                function_count: count,
                ..Executable::default()
            }
            .to_bytes(),
        );
        for function in 0..count {
            places.functions.push((executable, function));
            let name = NAMES[draw.below(NAMES.len() as u64) as usize];
            ExecutableFunction {
                executable_id: executable,
                function_ordinal: function,
                ..ExecutableFunction::default()
            }
            .write(&mut functions, name)
            .expect("it is short");
        }
    }
    chunk(Content::Executables, &executables);
    chunk(Content::ExecutableFunctions, &functions);
    places.command_buffers = draw.below(3);
    let mut command_buffers = Vec::new();
    for command_buffer in 1..=places.command_buffers {
        command_buffers.extend(
            CommandBuffer {
                record_length: CommandBuffer::SIZE as u32,
                command_buffer_id: command_buffer,
                ..CommandBuffer::default()
            }
            .to_bytes(),
        );
    }
    chunk(Content::CommandBuffers, &command_buffers);
    metrics(&mut chunk);
    places
}

/// The metrics of all profiles, one for each kind of value.
const METRICS: [(u64, MetricValueKind, &[u8]); 3] = [
    (1, MetricValueKind::U64, b"clock.compute.current"),
    (2, MetricValueKind::I64, b"</script>"),
    (3, MetricValueKind::F64, b"temperature"),
];

fn metrics(chunk: &mut dyn FnMut(Content, &[u8])) {
    let (mut sources, mut descriptors) = (Vec::new(), Vec::new());
    DeviceMetricSource { source_id: 1, metric_count: 3, ..DeviceMetricSource::default() }
        .write(&mut sources, b"sensor")
        .expect("it is short");
    for (metric_id, value_kind, name) in METRICS {
        let unit = MetricUnit(2);
        DeviceMetricDescriptor { source_id: 1, metric_id, unit, value_kind, ..DeviceMetricDescriptor::default() }
            .write(&mut descriptors, name, b"")
            .expect("it is short");
    }
    chunk(Content::DeviceMetricSources, &sources);
    chunk(Content::DeviceMetricDescriptors, &descriptors);
}

impl Places {
    fn queue(&self, draw: &mut Draw) -> (u32, u32, u64) {
        self.queues[draw.below(self.queues.len() as u64) as usize]
    }

    fn function(&self, draw: &mut Draw) -> (u64, u32) {
        self.functions[draw.below(self.functions.len() as u64) as usize]
    }

    fn command_buffer(&self, draw: &mut Draw) -> u64 {
        draw.below(self.command_buffers + 1)
    }

    fn next(&mut self, draw: &mut Draw) -> (u64, i64) {
        self.event += 1;
        self.now += draw.below(2000) as i64;
        (self.event, self.now)
    }

    /// A span of the host, which rarely is none.
    fn span(&self, draw: &mut Draw, start: i64) -> (i64, i64) {
        match draw.below(40) {
            0 => (start, start - 1),
            1 => (-1, start),
            _ => (start, start + draw.size(16) as i64),
        }
    }
}

fn queue_events(draw: &mut Draw, places: &mut Places, drawn: &mut Drawn, count: u64) -> Chunk {
    let mut records = Vec::new();
    for _ in 0..count {
        let ((event_id, now), (device, queue, stream_id)) = (places.next(draw), places.queue(draw));
        let ready = if draw.one_in(10) { 0 } else { now + draw.below(5000) as i64 };
        records.extend(
            QueueEvent {
                record_length: QueueEvent::SIZE as u32,
                r#type: QueueEventType(draw.below(13) as u32),
                dependency_strategy: DependencyStrategy(draw.below(5) as u32),
                event_id,
                host_time_ns: now,
                submission_id: draw.below(20),
                command_buffer_id: places.command_buffer(draw),
                stream_id,
                physical_device_ordinal: device,
                queue_ordinal: queue,
                payload_length: draw.size(20),
                operation_count: draw.below(9) as u32,
                ready_host_time_ns: ready,
                ..QueueEvent::default()
            }
            .to_bytes(),
        );
    }
    drawn.queue_events += count;
    (Content::QueueEvents, header(RecordType::CHUNK), records)
}

/// Ticks, which rarely are none.
fn ticks(draw: &mut Draw) -> (u64, u64) {
    let start = draw.size(40) + draw.below(1_000_000);
    match draw.below(20) {
        0 => (0, start),
        1 => (start, start - 1),
        _ => (start, start + draw.size(12)),
    }
}

fn queue_device_events(draw: &mut Draw, places: &mut Places, drawn: &mut Drawn, count: u64) -> Chunk {
    let mut records = Vec::new();
    for _ in 0..count {
        let ((event_id, _), (device, queue, stream_id)) = (places.next(draw), places.queue(draw));
        let (start_tick, end_tick) = ticks(draw);
        records.extend(
            QueueDeviceEvent {
                record_length: QueueDeviceEvent::SIZE as u32,
                r#type: QueueEventType(draw.below(13) as u32),
                event_id,
                submission_id: draw.below(20),
                stream_id,
                physical_device_ordinal: device,
                queue_ordinal: queue,
                start_tick,
                end_tick,
                ..QueueDeviceEvent::default()
            }
            .to_bytes(),
        );
    }
    drawn.queue_device_events += count;
    (Content::QueueDeviceEvents, header(RecordType::CHUNK), records)
}

fn host_executions(draw: &mut Draw, places: &mut Places, drawn: &mut Drawn, count: u64) -> Chunk {
    let mut records = Vec::new();
    for _ in 0..count {
        let ((event_id, now), (device, queue, stream_id)) = (places.next(draw), places.queue(draw));
        let is_dispatch = draw.one_in(2);
        let (executable_id, function_ordinal) = if is_dispatch { places.function(draw) } else { (0, u32::MAX) };
        let (start_host_time_ns, end_host_time_ns) = places.span(draw, now);
        records.extend(
            HostExecutionEvent {
                record_length: HostExecutionEvent::SIZE as u32,
                r#type: if is_dispatch { QueueEventType::DISPATCH } else { QueueEventType(draw.below(12) as u32 | 1) },
                event_id,
                submission_id: draw.below(20),
                command_buffer_id: places.command_buffer(draw),
                command_index: draw.below(5) as u32,
                executable_id,
                function_ordinal,
                stream_id,
                physical_device_ordinal: device,
                queue_ordinal: queue,
                workgroup_count: [1, 2, draw.size(5) as u32],
                start_host_time_ns,
                end_host_time_ns,
                tile_count: draw.below(9),
                tile_duration_sum_ns: draw.size(14) as i64,
                ..HostExecutionEvent::default()
            }
            .to_bytes(),
        );
    }
    drawn.host_executions += count;
    (Content::HostExecutionEvents, header(RecordType::CHUNK), records)
}

fn dispatches(draw: &mut Draw, places: &mut Places, drawn: &mut Drawn, count: u64) -> Chunk {
    let (device, queue, stream_id) = places.queue(draw);
    let mut records = Vec::new();
    for _ in 0..count {
        let ((event_id, _), (executable_id, function_ordinal)) = (places.next(draw), places.function(draw));
        let (start_tick, end_tick) = ticks(draw);
        records.extend(
            DispatchEvent {
                record_length: DispatchEvent::SIZE as u32,
                event_id,
                submission_id: draw.below(20),
                command_buffer_id: places.command_buffer(draw),
                executable_id,
                command_index: draw.below(5) as u32,
                function_ordinal,
                start_tick,
                end_tick,
                ..DispatchEvent::default()
            }
            .to_bytes(),
        );
    }
    drawn.dispatches += count;
    let chunk =
        RecordHeader { physical_device_ordinal: device, queue_ordinal: queue, stream_id, ..header(RecordType::CHUNK) };
    (Content::DispatchEvents, chunk, records)
}

fn regions(draw: &mut Draw, places: &mut Places, drawn: &mut Drawn, count: u64) -> Chunk {
    let mut records = Vec::new();
    for _ in 0..count {
        let ((event_id, now), (device, queue, stream_id)) = (places.next(draw), places.queue(draw));
        let (start, end) = places.span(draw, now);
        let mut event = CommandRegionEvent {
            record_length: CommandRegionEvent::SIZE as u32,
            event_id,
            submission_id: draw.below(20),
            stream_id,
            ..CommandRegionEvent::default()
        };
        (event.queue.physical_device_ordinal, event.queue.queue_ordinal) = (device, queue);
        event.command_region.start_host_time_ns = start;
        event.command_region.end_host_time_ns = end;
        event.command_region.index = draw.below(4) as i32;
        records.extend(event.to_bytes());
    }
    drawn.regions += count;
    (Content::CommandRegionEvents, header(RecordType::CHUNK), records)
}

fn memory_events(draw: &mut Draw, places: &mut Places, drawn: &mut Drawn, count: u64) -> Chunk {
    let mut records = Vec::new();
    for _ in 0..count {
        let ((event_id, host_time_ns), (device, queue, _)) = (places.next(draw), places.queue(draw));
        records.extend(
            MemoryEvent {
                record_length: MemoryEvent::SIZE as u32,
                r#type: MemoryEventType(draw.below(14) as u32),
                flags: draw.below(64) as u32,
                event_id,
                host_time_ns,
                allocation_id: draw.below(6),
                pool_id: draw.below(2),
                physical_device_ordinal: device,
                queue_ordinal: queue,
                length: draw.size(24),
                ..MemoryEvent::default()
            }
            .to_bytes(),
        );
    }
    drawn.memory_events += count;
    (Content::MemoryEvents, header(RecordType::CHUNK), records)
}

fn metric_samples(draw: &mut Draw, places: &mut Places, drawn: &mut Drawn, count: u64) -> Chunk {
    let mut records = Vec::new();
    for _ in 0..count {
        let ((sample_id, now), (device, ..)) = (places.next(draw), places.queue(draw));
        let mut values = Vec::new();
        for (metric_id, value_kind, _) in METRICS {
            if draw.one_in(4) {
                continue;
            }
            let number = draw.size(30);
            let value_bits = if value_kind == MetricValueKind::F64 { (number as f64 / 7.0).to_bits() } else { number };
            values.push(DeviceMetricValue { metric_id, value_bits, ..DeviceMetricValue::default() });
        }
        drawn.metric_values += values.len() as u64;
        DeviceMetricSample {
            sample_id,
            source_id: 1,
            host_time_begin_ns: now,
            host_time_end_ns: now + 10,
            physical_device_ordinal: device,
            ..DeviceMetricSample::default()
        }
        .write(&mut records, &values)
        .expect("it is short");
    }
    (Content::DeviceMetricSamples, header(RecordType::CHUNK), records)
}
