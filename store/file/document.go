package file

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"syscall"

	"github.com/holdfast-dev/holdfast/session"
)

// head is what writes are checked against, and what a tail continues.
type head struct {
	agent   string
	version int64
	seq     int64 // the last change sealed into the version
}

func headOf(s session.Session) head {
	return head{agent: s.AgentID(), version: s.Version(), seq: s.Info().Seq}
}

// errNoDocument says that a document does not exist, or does not any more.
var errNoDocument = errors.New("no document")

// openDocument opens a session's document. The caller closes it. As long as
// it is open, os.SameFile tells whether it was replaced since.
func (p place) openDocument() (*os.File, os.FileInfo, error) {
	f, err := openRegular(p.document())
	if errors.Is(err, errIrregular) {
		return nil, nil, p.corrupt("is not a regular file")
	}
	if err != nil {
		return nil, nil, p.unreadable(p.document(), err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, nil, errors.Join(p.unreadable(p.document(), err), f.Close())
	}
	return f, info, nil
}

var errIrregular = errors.New("is not a regular file")

// openRegular opens a regular file to read. Opening a pipe would wait for ever.
func openRegular(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errIrregular
	}
	return os.Open(path)
}

// readRegular reads a whole file that openRegular opens.
func readRegular(path string) ([]byte, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(f)
	return raw, errors.Join(err, f.Close())
}

// unreadable returns CorruptError for a file that cannot be read, and not for a
// lack of memory or file handles.
func (p place) unreadable(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errNoDocument
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ENOMEM):
		return fmt.Errorf("read session %s: %w", p.ref.ID, err)
	}
	var at *fs.PathError // names the path, as CorruptError does
	if errors.As(err, &at) {
		err = at.Err
	}
	return corruptFile(p, path, "cannot be read: %v", err)
}

func (p place) corrupt(format string, args ...any) *session.CorruptError {
	return corruptFile(p, p.document(), format, args...)
}

func corruptFile(p place, path, format string, args ...any) *session.CorruptError {
	return &session.CorruptError{ID: p.ref.ID, Path: path, Reason: fmt.Sprintf(format, args...)}
}

// readDocument reads and checks a whole document.
func (p place) readDocument(f *os.File) (session.Session, error) {
	raw, err := io.ReadAll(f)
	if err != nil {
		return session.Session{}, p.unreadable(p.document(), err)
	}
	document, err := Document(raw)
	if err != nil {
		return session.Session{}, p.corrupt(wrongSum)
	}
	s, err := session.Decode(document)
	if err != nil {
		return session.Session{}, p.diagnose(document, err)
	}
	return s, p.checkOwner(s.Info(), s.Partial())
}

// diagnose returns the first thing wrong with a document that does not decode.
func (p place) diagnose(raw []byte, decoding error) error {
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(raw, &parts); err != nil || parts == nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return p.corrupt("is not valid JSON: %v", err)
		}
		return p.corrupt("is not a JSON object")
	}
	for _, name := range []string{"header", "definition", "state"} {
		var object map[string]json.RawMessage
		if json.Unmarshal(parts[name], &object) != nil || object == nil {
			return p.corrupt("missing or invalid %s", name)
		}
	}
	var format string
	if json.Unmarshal(parts["format"], &format) != nil || format != session.Format {
		return p.corrupt("missing or invalid format")
	}
	var version int
	if json.Unmarshal(parts["formatVersion"], &version) != nil || version < 1 {
		return p.corrupt("missing or invalid formatVersion")
	}
	if version > session.FormatVersion {
		return newerFormat(version)
	}
	var newer *session.NewerFormatError
	if errors.As(decoding, &newer) {
		return newer
	}
	return p.corrupt("%v", decoding)
}

func newerFormat(version int) error {
	return &session.NewerFormatError{What: "format version", Have: strconv.Itoa(version), Know: strconv.Itoa(session.FormatVersion)}
}

// checkOwner refuses a document under a name that is not its own, and one
// that no save of this store can have written.
func (p place) checkOwner(i session.Info, partial bool) error {
	switch {
	case i.ID != p.ref.ID:
		return p.corrupt("the header names session %q", i.ID)
	case i.Tenant != p.ref.Tenant:
		return p.corrupt("the header names tenant %q", i.Tenant)
	case i.Version < 1:
		return p.corrupt("the header has version %d", i.Version)
	case partial:
		return p.corrupt("the transcript is not whole")
	}
	return nil
}

// headerPrefix is how much of a document is read first for its header.
const headerPrefix = 4 << 10

// readHeader reads a document only as far as its header, in steps that double.
func (p place) readHeader(f *os.File) (session.Info, error) {
	head, err := p.readHead(f)
	if err != nil {
		return session.Info{}, err
	}
	var raw []byte
	for size := int64(headerPrefix); ; size *= 2 {
		more, err := io.ReadAll(io.LimitReader(head, size-int64(len(raw))))
		if err != nil {
			return session.Info{}, p.unreadable(p.document(), err)
		}
		raw = append(raw, more...)
		info, err := session.DecodeHeader(raw)
		var newer *session.NewerFormatError
		switch {
		case err == nil:
			return info, p.checkOwner(info, false)
		case errors.As(err, &newer):
			return session.Info{}, newer
		case int64(len(raw)) < size: // all of it was read
			return session.Info{}, p.diagnose(raw, err)
		}
	}
}

// peek reads the head of a document that is known to be good, and returns where
// it ends. The head comes before everything that grows.
func peek(document io.Reader) (head, int64, error) {
	var h head
	dec := json.NewDecoder(document)
	err := walk(dec, func(key string) (done bool, err error) {
		switch key {
		case "header":
			var info session.Info
			err = dec.Decode(&info)
			h.version, h.seq = info.Version, info.Seq
		case "state":
			return true, walk(dec, func(key string) (bool, error) {
				if key == "agentId" {
					return true, dec.Decode(&h.agent)
				}
				return false, skip(dec)
			})
		default:
			err = skip(dec)
		}
		return false, err
	})
	if err == nil && (h.agent == "" || h.version < 1) {
		err = errors.New("no head")
	}
	return h, dec.InputOffset(), err
}

// walk calls visit for each key of an object until it is done; visit reads
// the key's value.
func walk(dec *json.Decoder, visit func(key string) (done bool, err error)) error {
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return errors.Join(errors.New("not an object"), err)
	}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return err
		}
		key, ok := t.(string)
		if !ok {
			return fmt.Errorf("%v is not a key", t)
		}
		if done, err := visit(key); done || err != nil {
			return err
		}
	}
	return nil
}

func skip(dec *json.Decoder) error {
	var value json.RawMessage
	return dec.Decode(&value)
}
