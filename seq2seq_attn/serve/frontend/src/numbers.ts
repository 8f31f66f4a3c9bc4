/** What is done with lists of numbers. */

export const upTo = (count: number): number[] => Array.from({ length: count }, (_, place) => place);
export const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

/** The place of the largest number. */
export const largest = (values: readonly number[]): number => values.indexOf(Math.max(...values));
