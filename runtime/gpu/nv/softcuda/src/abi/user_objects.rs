//! Objects of the program with references.

use std::ffi::c_void;
use std::sync::Arc;

use vireo_cuda::result::CuResult;
use vireo_cuda::types::{CuGraph, CuUserObject, GRAPH_USER_OBJECT_MOVE, HostFunction, USER_OBJECT_NO_DESTRUCTOR_SYNC};

use super::graphs;
use crate::api::{Out, Outcome};
use crate::system::{System, system};
use crate::user_object::UserObject;

fn known(object: CuUserObject) -> Outcome<(&'static System, Arc<UserObject>)> {
    let system = system()?;
    Ok((system, system.user_objects.get(object.0).ok_or(CuResult::ERROR_INVALID_VALUE)?))
}

pub(crate) unsafe fn cuUserObjectCreate(
    object: *mut CuUserObject,
    data: *mut c_void,
    destroy: Option<HostFunction>,
    references: u32,
    flags: u32,
) -> Outcome {
    let system = system()?;
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(object) }?;
    let destroy = destroy.ok_or(CuResult::ERROR_INVALID_VALUE)?;
    if references == 0 || references > i32::MAX as u32 || flags != USER_OBJECT_NO_DESTRUCTOR_SYNC {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    let created = Arc::new(UserObject::new(destroy, data, references));
    out.set(CuUserObject(system.user_objects.insert(created)));
    Ok(())
}

pub(crate) unsafe fn cuUserObjectRetain(object: CuUserObject, count: u32) -> Outcome {
    known(object)?.1.retain(count);
    Ok(())
}

pub(crate) unsafe fn cuUserObjectRelease(object: CuUserObject, count: u32) -> Outcome {
    let (system, found) = known(object)?;
    if found.release(count) {
        system.user_objects.remove(object.0);
    }
    Ok(())
}

pub(crate) unsafe fn cuGraphRetainUserObject(graph: CuGraph, object: CuUserObject, count: u32, flags: u32) -> Outcome {
    let ((_, graph), (_, found)) = (graphs::known(graph)?, known(object)?);
    if count == 0 || flags & !GRAPH_USER_OBJECT_MOVE != 0 {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    if flags & GRAPH_USER_OBJECT_MOVE == 0 {
        found.retain(count);
    }
    graph.kept.take(found, count);
    Ok(())
}

pub(crate) unsafe fn cuGraphReleaseUserObject(graph: CuGraph, object: CuUserObject, count: u32) -> Outcome {
    let ((_, graph), (_, found)) = (graphs::known(graph)?, known(object)?);
    if graph.kept.give(&found, count) { Ok(()) } else { Err(CuResult::ERROR_INVALID_VALUE) }
}
