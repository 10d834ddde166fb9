//! The registry of drivers: creates drivers by name and devices by URI. Hosts and tools use it.
//!
//! Drivers come from factories: that of this build (`builtin`), those that a host registers, and those of driver
//! libraries (`vireo-hal-abi`). A registry lists them and creates them. There is one registry for the whole process,
//! `vireo::hal::global_drivers`, for programs that need no other; `create_device` and `list_devices` use it.

pub mod driver;
mod uri;

use std::fmt;
use std::ptr;
use std::sync::{Arc, PoisonError, RwLock};

use self::uri::check_driver_name;

use super::host_kernels::ImportProviders;
use super::policy::SecurityPolicy;
use super::{Device, DeviceInfo, Driver};
use crate::status::{Result, Status, StatusCode};
use crate::visible_text::excerpt;

pub use self::uri::DeviceUri;

/// A driver that can be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverInfo {
    /// Its name in URIs: `local-sync`.
    pub name: String,
    /// A description for people.
    pub full_name: String,
}

impl DriverInfo {
    /// A driver called `name`.
    pub fn new(name: &str, full_name: &str) -> DriverInfo {
        DriverInfo { name: name.to_string(), full_name: full_name.to_string() }
    }
}

/// A factory of drivers.
///
/// Listing drivers is cheap, and does not promise that they work on this machine. Creating one may load libraries and
/// search for hardware.
pub trait DriverFactory: fmt::Debug + Send + Sync {
    /// The drivers it can create. Always the same ones.
    fn drivers(&self) -> Vec<DriverInfo>;

    /// Creates one of them, or returns one that was created before.
    ///
    /// # Errors
    /// `NOT_FOUND` if it is none of them, and what keeps it from working here, such as a missing library.
    fn create(&self, name: &str) -> Result<Arc<dyn Driver>>;
}

/// A device that can be created.
#[derive(Clone, Debug)]
pub struct AvailableDevice {
    /// Name of its driver.
    pub driver: String,
    /// The driver's description of it.
    pub info: DeviceInfo,
}

impl AvailableDevice {
    /// Its URI, for `create_device`: `local-sync://`.
    pub fn uri(&self) -> String {
        format!("{}://{}", self.driver, self.info.path)
    }
}

/// A set of drivers, to which more can be added at any time and from any thread.
///
/// ```
/// # use vireo::hal::{BuiltinOptions, DriverInfo};
/// let registry = BuiltinOptions::default().registry();
/// let device = registry.create_device("null://")?;
/// assert_eq!(device.id(), "null");
/// // A driver of one's own; this one is another name for one of them.
/// let null = registry.create_driver("null")?;
/// registry.register_driver(DriverInfo::new("nothing", "does nothing"), move || Ok(null.clone()))?;
/// assert!(registry.create_device("nothing").is_ok());
/// # Ok::<(), vireo::Status>(())
/// ```
#[derive(Debug, Default)]
pub struct DriverRegistry {
    factories: RwLock<Vec<Arc<dyn DriverFactory>>>,
    imports: Arc<ImportProviders>,
    policy: SecurityPolicy,
}

impl DriverRegistry {
    /// A registry without drivers.
    pub fn empty() -> DriverRegistry {
        DriverRegistry::default()
    }

    /// A registry with the drivers of a factory, whose devices let kernels import from `imports` and hold programs to
    /// `policy`.
    pub fn with_factory(
        factory: Arc<dyn DriverFactory>,
        imports: Arc<ImportProviders>,
        policy: SecurityPolicy,
    ) -> DriverRegistry {
        DriverRegistry { factories: RwLock::new(vec![factory]), imports, policy }
    }

    /// Adds the drivers of a factory. Of several factories with a driver of one name, the newest creates it.
    ///
    /// # Errors
    /// `ALREADY_EXISTS` if this very factory is registered, `INVALID_ARGUMENT` if a URI could not name one of its
    /// drivers.
    pub fn register(&self, factory: Arc<dyn DriverFactory>) -> Result<()> {
        for info in factory.drivers() {
            check_driver_name(&info.name).map_err(Status::invalid_argument)?;
        }
        let mut factories = self.factories.write().unwrap_or_else(PoisonError::into_inner);
        if factories.iter().any(|other| same(other, &factory)) {
            return Err(Status::new(StatusCode::AlreadyExists, format!("{factory:?} is registered already")));
        }
        factories.push(factory);
        Ok(())
    }

    /// Adds one driver, which `create` creates each time it is asked for.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if a URI could not name the driver.
    pub fn register_driver(
        &self,
        info: DriverInfo,
        create: impl Fn() -> Result<Arc<dyn Driver>> + Send + Sync + 'static,
    ) -> Result<()> {
        self.register(Arc::new(OneDriver { info, create }))
    }

    /// Removes a factory. Drivers and devices that it created stay valid.
    ///
    /// # Errors
    /// `NOT_FOUND` if it is not registered.
    pub fn unregister(&self, factory: &Arc<dyn DriverFactory>) -> Result<()> {
        let mut factories = self.factories.write().unwrap_or_else(PoisonError::into_inner);
        let index = factories.iter().position(|other| same(other, factory));
        let index = index.ok_or_else(|| Status::not_found(format!("{factory:?} is not registered")))?;
        factories.remove(index);
        Ok(())
    }

    /// The drivers, each name once. A driver that is listed may still fail to be created.
    pub fn drivers(&self) -> Vec<DriverInfo> {
        let mut drivers: Vec<DriverInfo> = Vec::new();
        for info in self.factories().iter().flat_map(|factory| factory.drivers()) {
            match drivers.iter_mut().find(|other| other.name == info.name) {
                Some(other) => *other = info,
                None => drivers.push(info),
            }
        }
        drivers
    }

    /// Creates a driver.
    ///
    /// # Errors
    /// `NOT_FOUND`, with the drivers of the registry, if it is none of them, and those of its factory.
    pub fn create_driver(&self, name: &str) -> Result<Arc<dyn Driver>> {
        // Factories are called without the lock, since creating a driver may take long, or use the registry.
        let factories = self.factories();
        let offers = |factory: &&Arc<dyn DriverFactory>| factory.drivers().iter().any(|info| info.name == name);
        let Some(factory) = factories.iter().rev().find(offers) else {
            let known = self.drivers().into_iter().map(|info| info.name).collect::<Vec<_>>();
            let known = if known.is_empty() { "none".to_string() } else { known.join(", ") };
            let name = excerpt(name);
            return Err(Status::not_found(format!("there is no driver `{name}`: the drivers are {known}")));
        };
        factory.create(name).map_err(|status| status.context(format!("creating driver `{name}`")))
    }

    /// Creates a device by its URI, such as `local-sync` or `driver://path?key=value`. Each call may create a driver:
    /// for several devices of one driver, create that first and the devices with it.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if the URI is malformed, `NOT_FOUND` if there is no such driver or device, and those of the
    /// driver.
    pub fn create_device(&self, uri: &str) -> Result<Arc<dyn Device>> {
        let driver = self.create_driver(&DeviceUri::parse(uri)?.driver)?;
        driver.create_device_by_uri(uri)
    }

    /// The devices of a driver.
    ///
    /// # Errors
    /// As [`DriverRegistry::create_driver`], and those of the driver.
    pub fn devices_of(&self, driver: &str) -> Result<Vec<AvailableDevice>> {
        let devices = self.create_driver(driver)?.query_available_devices()?;
        Ok(devices.into_iter().map(|info| AvailableDevice { driver: driver.to_string(), info }).collect())
    }

    /// The devices of all drivers. A driver that does not work here, because hardware or a library is missing, has
    /// none.
    pub fn devices(&self) -> Vec<AvailableDevice> {
        let drivers = self.drivers();
        drivers.iter().filter_map(|info| self.devices_of(&info.name).ok()).flatten().collect()
    }

    /// The functions that kernels may import on local devices of this registry's own drivers. An added provider counts
    /// for executables that are loaded afterwards.
    pub fn imports(&self) -> &Arc<ImportProviders> {
        &self.imports
    }

    /// The security policy of programs on devices of this registry.
    pub fn policy(&self) -> &SecurityPolicy {
        &self.policy
    }

    fn factories(&self) -> Vec<Arc<dyn DriverFactory>> {
        self.factories.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn same(a: &Arc<dyn DriverFactory>, b: &Arc<dyn DriverFactory>) -> bool {
    ptr::addr_eq(Arc::as_ptr(a), Arc::as_ptr(b))
}

/// A factory of one driver.
struct OneDriver<F> {
    info: DriverInfo,
    create: F,
}

impl<F> fmt::Debug for OneDriver<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "factory of `{}`", self.info.name)
    }
}

impl<F: Fn() -> Result<Arc<dyn Driver>> + Send + Sync> DriverFactory for OneDriver<F> {
    fn drivers(&self) -> Vec<DriverInfo> {
        vec![self.info.clone()]
    }

    fn create(&self, _name: &str) -> Result<Arc<dyn Driver>> {
        (self.create)()
    }
}
