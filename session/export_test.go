package session

// ScanRecord is the fast way to read a record, which may decline.
func ScanRecord(data []byte) (Record, bool) { return scanRecord(data) }

// DecodeRecord is the strict way, which reads all of JSON.
func DecodeRecord(data []byte) (Record, error) {
	var r Record
	err := r.decode(data)
	return r, err
}

// NormalPermissions is the bucket as a session keeps it.
func NormalPermissions(p Permissions) (Permissions, error) { return p.normal() }

// PlainLength is how the scanner passes over plain text.
func PlainLength(text string) int { return plainLength(text) }
