// Package benchmark has what the programs that measure share: text to write,
// numbers and charts to show, and the part of a page that a program writes.
package benchmark

import (
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// Machine describes the machine of a run.
type Machine struct {
	Cores int           `json:"cores"`
	Go    string        `json:"go"`
	Flush time.Duration `json:"flushNanoseconds"` // of 4 KiB to the disk
}

// ThisMachine describes the machine and the disk of a folder.
func ThisMachine(dir string) (Machine, error) {
	flush, err := flushTime(filepath.Join(dir, "flush"))
	return Machine{Cores: runtime.NumCPU(), Go: runtime.Version(), Flush: flush}, err
}

// flushTime measures how long the disk takes to acknowledge 4 KiB.
func flushTime(file string) (time.Duration, error) {
	f, err := os.Create(file)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // nothing in it is wanted
	page := make([]byte, 4096)
	var took []time.Duration
	for range 200 {
		begin := time.Now()
		if _, err := f.Write(page); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(begin))
	}
	return Median(took), nil
}
