/** Sounds of any kind that the browser plays, and those of a microphone, as a WAV file at the rate that a model reads. */

const BYTES = 2; // of a sample

/** Samples from -1 to 1 as a WAV file of one channel and 16 bits. */
export function wav(samples: Float32Array, rate: number): Blob {
  const size = samples.length * BYTES;
  const view = new DataView(new ArrayBuffer(44 + size));
  const text = (place: number, letters: string): void =>
    [...letters].forEach((letter, i) => view.setUint8(place + i, letter.charCodeAt(0)));
  text(0, "RIFF");
  view.setUint32(4, 36 + size, true);
  text(8, "WAVEfmt ");
  view.setUint32(16, 16, true); // bytes of the format
  view.setUint16(20, 1, true); // PCM
  view.setUint16(22, 1, true); // channels
  view.setUint32(24, rate, true);
  view.setUint32(28, rate * BYTES, true);
  view.setUint16(32, BYTES, true);
  view.setUint16(34, 8 * BYTES, true);
  text(36, "data");
  view.setUint32(40, size, true);
  samples.forEach((sample, i) => view.setInt16(44 + i * BYTES, Math.round(Math.max(-1, Math.min(1, sample)) * 32767), true));
  return new Blob([view.buffer], { type: "audio/wav" });
}

/** The mean of the channels of a sound, at this rate. Error: the browser cannot read it. */
export async function resampled(sound: Blob, rate: number): Promise<Blob> {
  const decoded = await new OfflineAudioContext(1, 1, rate).decodeAudioData(await sound.arrayBuffer());
  const mean = new Float32Array(decoded.length);
  for (let channel = 0; channel < decoded.numberOfChannels; channel += 1) {
    decoded.getChannelData(channel).forEach((sample, i) => (mean[i]! += sample / decoded.numberOfChannels));
  }
  return wav(mean, rate);
}

/** Records from the microphone until the signal; the returned function ends that before, and returns the sound. */
export async function record(signal: AbortSignal): Promise<() => Promise<Blob>> {
  const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
  const letGo = (): void => stream.getTracks().forEach((track) => track.stop());
  if (signal.aborted) letGo();
  signal.throwIfAborted();
  signal.addEventListener("abort", letGo);
  const recorder = new MediaRecorder(stream);
  const parts: Blob[] = [];
  recorder.addEventListener("dataavailable", ({ data }) => parts.push(data));
  recorder.start();
  return () =>
    new Promise((resolve) => {
      recorder.addEventListener("stop", () => {
        letGo();
        resolve(new Blob(parts, { type: recorder.mimeType }));
      });
      recorder.stop();
    });
}

/** A file as a line for the server, data:TYPE;base64,CONTENT. */
export function asLine(content: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => resolve(reader.result as string));
    reader.addEventListener("error", () => reject(reader.error));
    reader.readAsDataURL(content);
  });
}
