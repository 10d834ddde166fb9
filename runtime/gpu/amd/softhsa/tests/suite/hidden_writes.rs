//! Writes that become visible late, so that programs which do not publish them fail here before they do on hardware.

use std::sync::atomic::Ordering;

use vireo_hsa::hsa::{AgentInfo, HdpFlush};
use vireo_hsa::packet::FenceScope;
use vireo_hsa::packets::Order;
use vireo_simt::{Port, Trap, TrapKind};

use crate::support::*;

/// Doubles the 32-bit word that the first argument points to, and stores the result after it.
fn double(dispatch: &vireo_softhsa::KernelDispatch<'_>) -> Result<(), Trap> {
    let mut port = Port::new(dispatch.memory);
    let trap = |fault| Trap::new(TrapKind::Memory(fault));
    let [low, high] = port.load_words::<2>(dispatch.packet.kernarg_address).map_err(trap)?;
    let data = u64::from(high) << 32 | u64::from(low);
    let [value] = port.load_words::<1>(data).map_err(trap)?;
    port.store_words(data + 8, [2 * value]).map_err(trap)
}

const ACQUIRE: Order = Order { barrier: true, acquire: FenceScope::SYSTEM, release: FenceScope::AGENT };
const RELEASE: Order = Order { barrier: true, acquire: FenceScope::AGENT, release: FenceScope::SYSTEM };

struct Run<'a> {
    session: &'a Session,
    queue: Queue,
    kernel: u64,
    kernarg: Memory,
}

impl<'a> Run<'a> {
    fn new(session: &'a Session) -> Self {
        let (_, kernel) = session.load(session.gpu());
        let (queue, kernarg) = (Queue::new(session.gpu(), 16), session.kernarg_memory(64));
        Run { session, queue, kernel, kernarg }
    }

    fn kernel(&self, order: Order, data: &Memory) {
        let completion = self.session.signal(1);
        // Arguments are in fine-grained memory of the host, which is never hidden.
        let arguments = arguments(&self.kernarg, 0, data.address, 0);
        self.queue.submit(&[dispatch(order, self.kernel, arguments, 1, completion)]);
        wait(completion);
    }
}

#[test]
fn acquires_and_releases_publish_coarse_grained_memory() {
    let session = Session::with("host-writes=until-acquire", double);
    let run = Run::new(&session);
    let data = session.device_memory(4096);
    data.store(0, 21);
    run.kernel(RELEASE, &data);
    assert_eq!(data.load(1), 0, "the kernel has not seen the value");
    run.kernel(ACQUIRE, &data);
    assert_eq!(data.load(1), 0, "the result is not released");
    // A byte that the host changes meanwhile stays, though its word is released.
    data.store(1, 0xff00_0000_0000);
    run.kernel(Order { barrier: true, ..RELEASE }, &data);
    assert_eq!(data.load(1), 0xff00_0000_0000 | 42);
    // A copy by the library publishes both ways.
    let one = 1u64;
    assert_eq!(hsa!(hsa_memory_copy(data.pointer(), (&raw const one).cast(), 8)), OK);
    run.kernel(RELEASE, &data);
    assert_eq!(data.load(1) & 0xffff_ffff, 2);
    // Fine-grained memory needs nothing.
    let fine = Memory::new(session.pool(session.gpu(), FINE), 64);
    fine.store(0, 4);
    run.kernel(Order::NONE, &fine);
    assert_eq!(fine.load(1), 8);
}

#[test]
fn a_register_publishes_memory_of_gpus() {
    let session = Session::with("host-writes=until-flush", double);
    let run = Run::new(&session);
    let mut flush = HdpFlush::default();
    let status = hsa!(hsa_agent_get_info(session.gpu(), AgentInfo::HDP_FLUSH, (&raw mut flush).cast()));
    assert_eq!(status, OK);
    let register: *mut u32 = std::ptr::with_exposed_provenance_mut(flush.mem_flush as usize);
    for flags in [COARSE, FINE] {
        let data = Memory::new(session.pool(session.gpu(), flags), 4096);
        data.store(0, 21);
        run.kernel(Order::SYSTEM, &data);
        assert_eq!(data.load(1), 0, "fences do not publish it");
        // SAFETY: the library gave the address of the register.
        unsafe { std::sync::atomic::AtomicU32::from_ptr(register) }.store(1, Ordering::Release);
        run.kernel(Order::NONE, &data);
        assert_eq!(data.load(1), 42);
    }
}
