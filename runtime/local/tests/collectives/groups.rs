//! Groups of ranks on local devices.

use std::sync::Arc;

use vireo::hal::create_device;
use vireo_hal::{ChannelParams, Device};

use crate::rank::{ANY, Rank};

/// The ranks of a group, on devices of these drivers in turn. Ranks with one driver share a device.
pub fn ranks(drivers: &[&str], name: &str, count: i32) -> Vec<Rank> {
    let devices: Vec<Arc<dyn Device>> = drivers.iter().map(|driver| create_device(driver).unwrap()).collect();
    let id = format!("{name} of {drivers:?}").into_bytes();
    let rank = |rank: i32| {
        let device = devices[rank as usize % devices.len()].clone();
        let params = ChannelParams { id: id.clone(), rank, count, ..ChannelParams::default() };
        let channel = device.create_channel(ANY, &params).unwrap();
        Rank { device, channel }
    };
    (0..count).map(rank).collect()
}
