// Numbers that JavaScript cannot hold are kept as they were written, so that
// what is shown is what is stored.

/** A number as it was written. */
export class ExactNumber {
  constructor(readonly source: string) {}
  toString(): string {
    return this.source
  }
  /** Writes all digits, where it is part of a request. */
  toJSON(): unknown {
    return (JSON as unknown as { rawJSON: (text: string) => unknown }).rawJSON(this.source)
  }
}

type Reviver = (key: string, value: unknown, context?: { source?: string }) => unknown

const revive: Reviver = (_key, value, context) => {
  if (typeof value !== 'number' || context?.source === undefined || Number.isSafeInteger(value)) return value
  return String(value) === context.source || !/^-?\d+$/.test(context.source) ? value : new ExactNumber(context.source)
}

/** Reads JSON. Whole numbers beyond 2^53 become an ExactNumber. */
export function parseJSON(text: string): unknown {
  // Calling back for each value is slow, and only long numbers need it.
  return /\d{16}/.test(text) ? JSON.parse(text, revive as (key: string, value: unknown) => unknown) : JSON.parse(text)
}

/** Writes a value as indented JSON, with all digits. */
export function formatJSON(value: unknown, indent = ''): string {
  if (value instanceof ExactNumber) return value.source
  if (value === undefined) return ''
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  const inner = indent + '  '
  const lines = Array.isArray(value)
    ? value.map((v) => inner + formatJSON(v, inner))
    : Object.entries(value).map(([k, v]) => `${inner}${JSON.stringify(k)}: ${formatJSON(v, inner)}`)
  const [open, close] = Array.isArray(value) ? '[]' : '{}'
  return lines.length === 0 ? `${open}${close}` : `${open}\n${lines.join(',\n')}\n${indent}${close}`
}
