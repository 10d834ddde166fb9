//! Groups of ranks on devices of the software driver, with NCCL in software.

use std::sync::Arc;
use std::time::Duration;

use vireo_collectives::{CollectiveOptions, Collectives, Meeting};
use vireo_cuda_driver::library;
use vireo_hal::{ChannelParams, Device, Driver};
use vireo_stream::collectives::LibrarySource;
use vireo_stream::context::Library;
use vireo_stream::device::DeviceOptions;
use vireo_stream::driver::StreamDriver;

use crate::rank::{ANY, Rank};

/// The devices of the software driver.
const DEVICES: u32 = 8;

/// The software driver, for the process.
fn library() -> Arc<Library> {
    let options = vireo_softcuda::Options { devices: DEVICES, memory: 256 << 20, ..vireo_softcuda::Options::default() };
    // Another test may have been first.
    let _ = vireo_softcuda::configure(options);
    let find = vireo_softcuda::entries::cuGetProcAddress_v2;
    // SAFETY: it finds the functions of one library, which is part of the program.
    unsafe {
        vireo_softnccl::use_driver(find);
        library::start_found(find, None).expect("it starts")
    }
}

/// The options of devices whose ranks find each other in this process.
pub fn options() -> DeviceOptions {
    DeviceOptions {
        collectives_library: LibrarySource::Functions(vireo_softnccl::functions()),
        ..DeviceOptions::default()
    }
}

/// The collectives of a rank.
pub fn collectives(meeting: Meeting, rank_and_count: Option<(u32, u32)>, limit: Duration) -> Collectives {
    Collectives::new(CollectiveOptions { meeting, rank_and_count, limit, shares_memory: true })
}

/// A device of the software driver.
pub fn device(index: i32, options: DeviceOptions) -> Arc<dyn Device> {
    let driver = StreamDriver::new(library(), 0, options).expect("there are devices");
    driver.create_device_by_path("cuda", &index.to_string(), &[]).expect("a device")
}

/// A rank of a group, on the device of its number.
pub fn rank_of(name: &str, rank: i32, count: i32, options: DeviceOptions) -> Rank {
    let device = device(rank, options);
    let params = ChannelParams { id: name.into(), rank, count, ..ChannelParams::default() };
    let channel = device.create_channel(ANY, &params).expect("a channel");
    Rank { device, channel }
}

/// The ranks of a group, each on a device of its own.
pub fn ranks(name: &str, count: i32) -> Vec<Rank> {
    (0..count).map(|rank| rank_of(name, rank, count, options())).collect()
}
