"""How sessions travel between devices: the rooms, from the outside in.

background    a sync that runs by itself, in a process of its own
visit         one home and one remote: every session that is to be made equal
remotes       the remotes of a home by their names: added, tried, forgotten
reach         a remote, opened as what is remembered of it demands
alone         one visit at a time, and no change of keys while it lasts
joining       a session that came in a file, and is now shared by whoever began it
circling      what the devices of one person say of each other, here and there
exchange      one session on one remote: what is known to be there, and whose it is
looking       packs that are new there, judged against all that is known
opening       one pack, checked against its name, its seal and its claim
taking        what was found sound goes into the journal
pushing       what the remote lacks goes there
replacing     packs give way to others of the same range: erased, or fewer
turning       keys that someone who was put out may hold give way to new ones
session_keys  the keys of one session there, and what is opened and sealed by them
parcels       the events that are to travel, cut into what each pack holds
quick_pack    a pack of one stretch, read or made in one go
trip          what all exchanges of a visit share: the transfers, and the word to stop
"""
