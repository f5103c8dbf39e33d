package tools

// For pages no server would send.
var Markdown = markdown
