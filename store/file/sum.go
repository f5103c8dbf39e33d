package file

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/holdfast-dev/holdfast/session"
)

// A document begins with its checksums:
//
//	{"sum":"…","headSum":"…","headSize":N,"format":…
//
// sum covers everything after it. headSum covers the N bytes after headSize,
// which hold the head, so that a listing need not read the rest. A document
// without them, of an earlier program or from somebody's editor, is read as it
// is.
const (
	sumKey      = `{"sum":"`
	headSumKey  = `","headSum":"`
	headSizeKey = `","headSize":`
	sumLen      = 2 * sha256.Size
)

const wrongSum = "what is stored does not match its checksum"

var errSum = &session.InvalidError{Field: "document", Reason: wrongSum}

func checksum(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// seal puts checksums before a session document.
func seal(document []byte) ([]byte, error) {
	_, size, err := peek(bytes.NewReader(document))
	if err != nil {
		return nil, err
	}
	rest := fmt.Appendf(nil, "%s%s%s%d,", headSumKey, checksum(document[1:size]), headSizeKey, size-1)
	rest = append(rest, document[1:]...)
	sealed := make([]byte, 0, len(sumKey)+sumLen+len(rest))
	sealed = append(sealed, sumKey...)
	sealed = append(sealed, checksum(rest)...)
	return append(sealed, rest...), nil
}

// Document returns the session document that a file of the store holds, without
// its checksums. InvalidError if they are wrong.
func Document(raw []byte) ([]byte, error) {
	if !bytes.HasPrefix(raw, []byte(sumKey)) {
		return raw, nil
	}
	sums, err := readSums(raw)
	if err != nil {
		return nil, err
	}
	if checksum(raw[len(sumKey)+sumLen:]) != sums.whole {
		return nil, errSum
	}
	return bare(raw[sums.end:]), nil
}

// bare gives what follows the checksums its opening bracket again.
func bare(rest []byte) []byte { return append([]byte{'{'}, rest...) }

// sums are the checksums at the beginning of a document.
type sums struct {
	whole, head string
	headSize    int64
	end         int // of the checksums
}

// readSums reads the checksums that a document begins with.
func readSums(raw []byte) (sums, error) {
	var s sums
	rest, ok := bytes.CutPrefix(raw, []byte(sumKey))
	s.whole, rest, ok = cutSum(rest, headSumKey, ok)
	s.head, rest, ok = cutSum(rest, headSizeKey, ok)
	size, rest, found := bytes.Cut(rest, []byte(","))
	if !ok || !found {
		return s, errSum
	}
	var err error
	if s.headSize, err = strconv.ParseInt(string(size), 10, 64); err != nil || s.headSize < 0 || strconv.FormatInt(s.headSize, 10) != string(size) {
		return s, errSum
	}
	s.end = len(raw) - len(rest)
	return s, nil
}

// cutSum cuts a checksum and the key after it from the beginning of text.
func cutSum(text []byte, key string, ok bool) (string, []byte, bool) {
	if !ok || len(text) < sumLen {
		return "", nil, false
	}
	rest, ok := bytes.CutPrefix(text[sumLen:], []byte(key))
	return string(text[:sumLen]), rest, ok
}

// readHead reads a document from its beginning: at least as far as its head,
// and if it has checksums no further, with the head checked.
func (p place) readHead(f *os.File) (io.Reader, error) {
	start, err := io.ReadAll(io.LimitReader(f, headerPrefix))
	if err != nil {
		return nil, p.unreadable(p.document(), err)
	}
	if !bytes.HasPrefix(start, []byte(sumKey)) {
		return io.MultiReader(bytes.NewReader(start), f), nil
	}
	s, err := readSums(start)
	if err != nil {
		return nil, p.corrupt(wrongSum)
	}
	head := start[s.end:]
	if missing := s.headSize - int64(len(head)); missing > 0 {
		more, err := io.ReadAll(io.LimitReader(f, missing))
		if err != nil {
			return nil, p.unreadable(p.document(), err)
		}
		head = append(head, more...)
	}
	if int64(len(head)) < s.headSize || checksum(head[:s.headSize]) != s.head {
		return nil, p.corrupt(wrongSum)
	}
	return bytes.NewReader(bare(head[:s.headSize])), nil
}

// sealLine is a value with its checksum, as a line.
func sealLine(key string, value []byte) []byte {
	return fmt.Appendf(nil, "%s%s\",%q:%s}\n", sumKey, checksum(value), key, value)
}

// openLine returns the value of a line, which is without its end, if the
// checksum is right.
func openLine(key string, line []byte) ([]byte, bool) {
	rest, ok := bytes.CutPrefix(line, []byte(sumKey))
	sum, value, ok := cutSum(rest, fmt.Sprintf("\",%q:", key), ok)
	value, closed := bytes.CutSuffix(value, []byte("}"))
	return value, ok && closed && checksum(value) == sum
}
