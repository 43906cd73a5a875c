#!/bin/sh
# Forestay takes down what a hook of an agent says: spool.sh AGENT [EVENT] <PAYLOAD
#
# The payload goes to a file of its own, whose first line says where it came from; it is synced,
# takes its place by rename, and the folder is synced. `forestay ingest` makes events of it later.
# Whatever happens, the agent goes on: nothing is printed, and the exit code is 0. What could not
# be taken down is counted by one byte in the file `lost`.
#
# An agent waits for each of its hooks, so no process is started that can be done without.

spool=@SPOOL@
sync=@SYNC@
cat=@CAT@ date=@DATE@ dd=@DD@ mkdir=@MKDIR@ mv=@MV@ rm=@RM@ sync_tool=@SYNC_TOOL@ wc=@WC@
setsid=@SETSID@
limit=16777216
drain= made=

forestay() {
	@PROGRAM@ "$@"
}

word() {
	case $1 in '' | *[!A-Za-z0-9._-]*) word=- ;; *) word=$1 ;; esac
}

# What the system knows of a process; with its number, boot and init it is like no other.
look_at() {
	start=- parent=- called= line=
	read -r line <"/proc/$1/stat" || return
	called=${line#*\(}
	called=${called%\)*}
	set -- ${line##*\) }
	word "$2" && parent=$word
	word "${20}" && start=$word
}

find_agent() {
	claude=
	# Another agent that was started by Claude Code has inherited its variables.
	[ "$agent" != claude-code ] || claude=$CLAUDE_PID
	word "${claude:-$PPID}" && pid=$word
	look_at "$pid"
	[ -z "$claude" ] || return
	case $called in sh | ash | bash | dash | fish | ksh | zsh | busybox)
		# The agent is behind the shell that it runs its hooks with.
		pid=$parent && look_at "$pid" ;;
	esac
}

# Beyond the limit the writer dies of it, and what is there by then is kept.
write() (
	ulimit -c 0
	ulimit -f $((limit / 512))
	LC_ALL=C
	export LC_ALL
	case $sync in
	d) exec "$dd" bs=65536 conv=fdatasync ;;
	*) exec "$cat" ;;
	esac
)

spool_it() {
	tmp=$spool/tmp/$name
	[ -d "$spool/new" ] && [ -d "$spool/tmp" ] || "$mkdir" -p "$spool/tmp" "$spool/new"
	set -C
	{
		made=1
		printf 'forestay-spool 1 %s %s %s %s %s %s\n' \
			"$agent" "$event" "$pid" "$start" "$boot" "$init" && write
	} >"$tmp" || is_cut || return
	set +C
	[ "$sync" != f ] || "$sync_tool" "$tmp"
	LC_ALL=C "$mv" "$tmp" "$spool/new/$name" || return
	[ -z "$sync" ] || LC_ALL=C "$sync_tool" "$spool/new"
	return 0
}

is_cut() {
	drain=1
	[ "$("$wc" -c <"$tmp")" -ge "$limit" ]
}

start_ingest() {
	# One that runs takes its number away first, and then looks once more before it leaves.
	who=
	read -r who <"$spool/lock"
	kill -0 "${who:-nobody}" && return
	(
		trap '' HUP
		set -- @PROGRAM@ ingest --quiet
		if [ -n "$setsid" ]; then set -- "$setsid" "$@"; fi
		"$@" </dev/null 3>&- &
	)
}

main() {
	umask 077
	set -f
	# Without a home nobody would ever take up what is kept there.
	drain=1
	[ -d "${spool%/*}" ] || return
	word "$1" && agent=$word
	word "$2" && event=$word
	boot='' now=''
	read -r boot </proc/sys/kernel/random/boot_id
	word "$boot" && boot=$word
	read -r now _ </proc/uptime || now=$("$date" +%s)
	look_at 1
	init=$start
	find_agent
	name=${boot%%-*}-$init-$now-$$
	drain=
	if ! spool_it; then
		drain=1
		[ -z "$made" ] || "$rm" -f "$tmp"
		printf . >>"$spool/lost"
		return
	fi
	case $event in
	SessionStart) forestay hook "$agent" --payload "$name" </dev/null >&3 ;;
	Stop | StopFailure | PreCompact | SessionEnd | AfterAgent | session.idle) start_ingest ;;
	esac
}

trap 'exit 0' 0
main "$@" 3>&1 >/dev/null 2>&1
# An agent can treat a hook that does not read its input as failed, so read the rest.
[ -z "$drain" ] || "$cat" >/dev/null 2>&1
exit 0
