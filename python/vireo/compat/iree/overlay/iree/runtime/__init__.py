"""`iree.runtime`, where the folder with this is on the path: the module is replaced by `vireo.compat.iree`."""

import vireo.compat.iree

vireo.compat.iree.install()
