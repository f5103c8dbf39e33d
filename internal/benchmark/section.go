package benchmark

import (
	"fmt"
	"os"
	"strings"
)

// Section is the part of a page that a program writes: what lies between two
// lines, which name the command.
type Section struct{ begin, end string }

// SectionOf returns the section that a command writes.
func SectionOf(command string) Section {
	return Section{"<!-- begin of what " + command + " writes -->", "<!-- end of what " + command + " writes -->"}
}

// Replace returns a page with a text in the place of what is in the section.
func (s Section) Replace(page, text string) (string, error) {
	before, rest, begun := strings.Cut(page, s.begin)
	_, after, ended := strings.Cut(rest, s.end)
	if !begun || !ended || strings.Contains(before, s.end) || strings.Contains(after, s.begin) || strings.Contains(after, s.end) {
		return "", fmt.Errorf("the lines %q and %q are not there once each, in this order", s.begin, s.end)
	}
	return before + s.begin + "\n\n" + strings.TrimSpace(text) + "\n\n" + s.end + after, nil
}

// Check refuses a file whose section cannot be written.
func (s Section) Check(file string) error {
	_, err := s.replaceIn(file, "")
	return err
}

// Write puts a text into the section of a file. After an error the file is unchanged.
func (s Section) Write(file, text string) error {
	next, err := s.replaceIn(file, text)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(next), 0o644)
}

func (s Section) replaceIn(file, text string) (string, error) {
	page, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	next, err := s.Replace(string(page), text)
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	return next, nil
}

// Cell is text that cannot end its cell of a Markdown table.
func Cell(text string) string { return strings.ReplaceAll(text, "|", "\\|") }
