package peers

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ticks a second in /proc, on every Linux that Go runs on.
const ticks = 100

// pids are the process and its children, and theirs.
func (p *Process) pids() []int {
	out := []int{p.PID}
	for i := 0; i < len(out); i++ {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", out[i]))
		if err != nil {
			continue
		}
		for _, name := range threads {
			text, err := os.ReadFile(name)
			if err != nil {
				continue // it ended meanwhile
			}
			for s := range strings.FieldsSeq(string(text)) {
				if pid, err := strconv.Atoi(s); err == nil {
					out = append(out, pid)
				}
			}
		}
	}
	return out
}

// PIDs are those of processes and their children.
func PIDs(procs []*Process) (out []int) {
	for _, p := range procs {
		out = append(out, p.pids()...)
	}
	return out
}

// CPU is the processor time that processes have used, with all their threads.
func CPU(pids []int) (sum time.Duration, err error) {
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0, err
		}
		d, err := parseStat(text)
		if err != nil {
			return 0, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
		sum += d
	}
	return sum, nil
}

// parseStat reads the user and system time in /proc/PID/stat. The name of the
// program in it may hold anything, spaces and parentheses too.
func parseStat(text []byte) (time.Duration, error) {
	f := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(f) < 13 {
		return 0, fmt.Errorf("%d fields", len(f))
	}
	var sum int
	for _, s := range f[11:13] {
		n, err := strconv.Atoi(string(s))
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return time.Duration(sum) * time.Second / ticks, nil
}

// RSS is the resident memory of processes, in bytes.
func RSS(pids []int) (sum int, err error) {
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
		if err != nil {
			return 0, err
		}
		f := bytes.Fields(text)
		if len(f) < 2 {
			return 0, fmt.Errorf("/proc/%d/statm has %d fields", pid, len(f))
		}
		pages, err := strconv.Atoi(string(f[1]))
		if err != nil {
			return 0, err
		}
		sum += pages * os.Getpagesize()
	}
	return sum, nil
}

// Busy is the processor time that the machine has spent on anything at all.
func Busy() (time.Duration, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	return parseBusy(text)
}

func parseBusy(text []byte) (sum time.Duration, err error) {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	f := bytes.Fields(line)
	if len(f) < 9 || string(f[0]) != "cpu" {
		return 0, fmt.Errorf("/proc/stat begins with %q", line)
	}
	for i, s := range f[1:9] {
		if i == 3 || i == 4 { // idle, and waiting for a disk
			continue
		}
		n, err := strconv.Atoi(string(s))
		if err != nil {
			return 0, err
		}
		sum += time.Duration(n) * time.Second / ticks
	}
	return sum, nil
}
