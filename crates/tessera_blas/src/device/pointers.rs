//! Where operands are: the driver is asked, if there is one in the process.

use std::ptr;

use cuda_lazy::{Driver, RawContext};

use super::opened;

/// Where an operand is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In memory of the host, or nowhere.
    Host,
    /// In managed memory, which host and device may use.
    Managed,
    /// In memory of the device of that number, which belongs to a context or, with null, to none.
    Device(u32, RawContext),
}

/// The codes of a driver that nobody has started, and of one that is gone: there is no memory of a device.
const NOT_RUNNING: [i32; 2] = [3, 4];

/// The driver to ask, if the process has one: it is not loaded for it, since without one all memory is the host's.
pub(super) fn driver() -> Option<&'static Driver> {
    if opened::is_lost() || !cuda_lazy::is_in_process() {
        return None;
    }
    cuda_lazy::load().ok()
}

/// Where an address points to.
pub(super) fn place_of(driver: &Driver, address: u64) -> Place {
    if address == 0 {
        return Place::Host;
    }
    let found = match driver.pointer_info(address) {
        Err(error) if !NOT_RUNNING.contains(&error.code) => {
            // A driver may want a context for it.
            match opened::in_some_context(|| driver.pointer_info(address)) {
                Some(found) => found,
                None => Err(error),
            }
        }
        found => found,
    };
    let Ok(Some(info)) = found else { return Place::Host };
    match u32::try_from(info.device) {
        _ if info.managed => Place::Managed,
        Ok(device) if info.on_device => Place::Device(device, info.context),
        _ => Place::Host,
    }
}

/// Where the operands of a call are, taken together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Together {
    /// The host can use all of them.
    Host,
    /// All are on one device, the one of that number, if it must be one, and in one context.
    OnDevice(Option<u32>, RawContext),
    /// Some are on a device, and others are not, or not on the same.
    Apart,
}

/// Where several operands are.
pub(super) fn together(places: &[Place]) -> Together {
    if places.iter().all(|&place| place == Place::Managed) && !places.is_empty() {
        return Together::OnDevice(None, ptr::null_mut());
    }
    let mut found = None;
    for place in places {
        match (*place, found) {
            (Place::Device(device, context), None) => found = Some((device, context)),
            (Place::Device(device, context), Some((one, first))) => {
                if device != one || !context.is_null() && !first.is_null() && context != first {
                    return Together::Apart;
                }
                found = Some((one, if first.is_null() { context } else { first }));
            }
            (Place::Host | Place::Managed, _) => {}
        }
    }
    match found {
        None => Together::Host,
        Some(_) if places.contains(&Place::Host) => Together::Apart,
        Some((device, context)) => Together::OnDevice(Some(device), context),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_on_one_device_are_used_in_place() {
        let none = ptr::null_mut();
        let (one, other) = (ptr::without_provenance_mut(16), ptr::without_provenance_mut(32));
        let (host, managed) = (Place::Host, Place::Managed);
        let on = |device| Place::Device(device, none);
        for (places, expected) in [
            ([host, host, host], Together::Host),
            ([host, managed, managed], Together::Host),
            ([managed, managed, managed], Together::OnDevice(None, none)),
            ([on(1), on(1), on(1)], Together::OnDevice(Some(1), none)),
            ([managed, on(1), managed], Together::OnDevice(Some(1), none)),
            ([on(0), on(1), on(0)], Together::Apart),
            ([on(0), host, on(0)], Together::Apart),
            (
                [on(0), Place::Device(0, one), Place::Device(0, one)],
                Together::OnDevice(Some(0), one),
            ),
            ([on(0), Place::Device(0, one), Place::Device(0, other)], Together::Apart),
        ] {
            assert_eq!(together(&places), expected, "{places:?}");
        }
    }
}
