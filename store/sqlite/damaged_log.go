package sqlite

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/holdfast-dev/holdfast/session"
)

// DamagedLogError is a write-ahead log that is damaged before its last commits.
// SQLite would drop the damaged commit and all that follow without a word. It
// counts as session.ErrCorrupt.
//
// Config.DropDamaged opens the database without those commits.
type DamagedLogError struct {
	Path    string // of the log
	Offset  int64  // of the damage
	Commits int    // how many commits after it would be lost, at least
}

func (e *DamagedLogError) Error() string {
	return fmt.Sprintf("the write-ahead log %s is damaged at byte %d, and %d or more commits after it would be lost; "+
		"restore the database from a backup, or give them up with: holdfast doctor --repair", e.Path, e.Offset, e.Commits)
}
func (e *DamagedLogError) Unwrap() error { return session.ErrCorrupt }

// checkLog refuses a database whose write-ahead log is damaged before its last
// commits, or puts a copy of the log aside if they are to be dropped. It reads
// nothing but the log: closing the other files would release the locks that this
// process has on them.
func checkLog(path string, drop bool) error {
	var before *DamagedLogError
	for {
		log, err := os.ReadFile(path + "-wal")
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		offset, commits := findDamage(log)
		if commits == 0 {
			return nil
		}
		damaged := &DamagedLogError{Path: path + "-wal", Offset: offset, Commits: commits}
		if before == nil || before.Offset != offset { // a log that is being written can be read half old, half new
			before = damaged
			continue
		}
		if !drop {
			return damaged
		}
		return os.WriteFile(path+"-wal.damaged", log, fileMode)
	}
}

// The form of a write-ahead log, https://sqlite.org/fileformat2.html#walformat:
// a header and frames, each a header and a page. Every checksum goes on from the
// one before it. A frame with the number of pages after it ends a commit.
const (
	logHeader   = 32
	frameHeader = 24
	logMagic    = 0x377f0682 // the last bit: numbers are big-endian in checksums
)

// findDamage returns where a log is damaged, if more than one whole commit
// follows, and how many do. A crash explains one commit after a torn frame,
// which was not acknowledged, but not two: the second is written when the first
// is on the disk. Frames of an earlier use of the file have other salts.
func findDamage(log []byte) (offset int64, commits int) {
	if len(log) < logHeader {
		return 0, 0
	}
	var order binary.ByteOrder = binary.LittleEndian
	if log[3]&1 == 1 {
		order = binary.BigEndian
	}
	size := int(binary.BigEndian.Uint32(log[8:]))
	good := binary.BigEndian.Uint32(log)&^1 == logMagic && sumLog(order, logSum{}, log[:24]) == readSum(log[24:])
	if !good {
		order, size = binary.LittleEndian, pageSize
	}
	salts, last := log[16:24], readSum(log[24:])
	if !good && len(log) >= logHeader+frameHeader {
		salts = log[logHeader+8 : logHeader+16]
	}
	for at := logHeader; size > 0 && at+frameHeader+size <= len(log); at += frameHeader + size {
		frame := log[at : at+frameHeader+size]
		right := bytes.Equal(frame[8:16], salts) && sumLog(order, sumLog(order, last, frame[:8]), frame[frameHeader:]) == readSum(frame[16:])
		last = readSum(frame[16:])
		switch {
		case good && !right:
			good, offset = false, int64(at)
		case !good && right && binary.BigEndian.Uint32(frame[4:]) > 0:
			commits++
		}
	}
	if good || commits < 2 {
		return 0, 0
	}
	return offset, commits
}

type logSum [2]uint32

func readSum(raw []byte) logSum {
	return logSum{binary.BigEndian.Uint32(raw), binary.BigEndian.Uint32(raw[4:])}
}

// sumLog adds the numbers of a text to a checksum.
func sumLog(order binary.ByteOrder, s logSum, text []byte) logSum {
	for ; len(text) >= 8; text = text[8:] {
		s[0] += order.Uint32(text) + s[1]
		s[1] += order.Uint32(text[4:]) + s[0]
	}
	return s
}
