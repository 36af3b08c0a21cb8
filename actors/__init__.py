from actors.without_hypothesis import import_kio

import_kio()
