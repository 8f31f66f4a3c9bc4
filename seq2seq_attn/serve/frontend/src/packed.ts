/** What a file of its own holds compressed. */

/** The bytes of a text in base64, decompressed. */
export async function unpacked(base64: string, format: CompressionFormat): Promise<ArrayBuffer> {
  const text = atob(base64);
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) packed[i] = text.charCodeAt(i);
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream(format))).arrayBuffer();
}
