from muster.actors.runtime.without_hypothesis import import_kio

import_kio()
