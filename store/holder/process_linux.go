package holder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// processStart returns what tells a process from another one with the same id,
// which may have got it later, after a restart of the machine or in another
// container: its start in clock ticks, the machine's boot id and the namespace of
// its process id.
func processStart(pid int) (string, error) {
	ticks, _, err := processStat(pid)
	if err != nil {
		return "", err
	}
	space, err := processSpace()
	if err != nil {
		return "", err
	}
	return ticks + "." + space, nil
}

func processSpace() (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	namespace, err := os.Readlink("/proc/self/ns/pid") // pid:[4026531836]
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(boot)) + "." + strings.Trim(namespace, "pid:[]"), nil
}

// processStat reads a process's start and state.
func processStat(pid int) (ticks, state string, err error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", "", err
	}
	// The command's name is in brackets and may hold anything.
	_, after, _ := strings.Cut(string(raw[max(0, strings.LastIndexByte(string(raw), ')')):]), ") ")
	fields := strings.Fields(after)
	const startTime = 19 // field 22 of the line, counted from the state
	if len(fields) <= startTime {
		return "", "", fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	return fields[startTime], fields[0], nil
}

// processGone is true only for processes that this one could see if they ran.
func processGone(pid int, start string) bool {
	ticks, space, ok := strings.Cut(start, ".")
	here, err := processSpace()
	if !ok || err != nil || space != here {
		return false
	}
	now, state, err := processStat(pid)
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	if err != nil {
		return false
	}
	return now != ticks || state == "Z" || state == "X"
}
